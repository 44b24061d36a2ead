"""Intents: an upload that takes long announces its packs, so that pruning leaves them alone until the manifest comes.

An intent counts for `INTENT_SECONDS` after it was last renewed: longer than any one pack takes. A short upload needs
none, since pruning leaves packs alone that are younger than its grace.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore

INTENT_SECONDS = 6 * 3600.0


class LostPacksError(TransientError):
    """Packs of a snapshot were deleted before its manifest came; the next snapshot must not build on them."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The announcement of one snapshot; `packs` are all that its manifest will name."""

    store: ObjectStore
    key: str
    packs: tuple[str, ...]

    def announce(self) -> None:
        """Write or renew it."""
        self.store.put(self.key, json.dumps({"packs": self.packs}).encode())

    def withdraw(self) -> None:
        """Delete it: the manifest names the packs now, or never will."""
        self.store.delete([self.key])


@dataclass(frozen=True, slots=True)
class Intents:
    """The intents of a stream, read in one go; `unreadable` names a live one whose packs are not known."""

    packs: Collection[str]
    expired: list[str]
    unreadable: str = ""


def read_intents(store: ObjectStore, prefix: str, *, now: float) -> Intents:
    """Read the live intents; `now` is the time on the object store's clock.

    To be called before manifests are listed: an intent that is gone by then has its manifest.
    """
    packs: set[str] = set()
    expired: list[str] = []
    for stored in store.list(prefix):
        if now - stored.modified_at >= INTENT_SECONDS:
            expired.append(stored.key)
            continue
        try:
            packs |= {str(pack) for pack in json.loads(store.get(stored.key))["packs"]}
        except MissingObjectError:
            continue
        except (ValueError, LookupError, TypeError) as error:
            return Intents((), expired, f"the intent {stored.key} cannot be read: {error}")
    return Intents(packs, expired)
