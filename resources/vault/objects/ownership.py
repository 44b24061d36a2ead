"""Whose snapshots these are: two projects may be pointed at one bucket and prefix by mistake.

The id of the project is in each manifest, and in an object at the root of the prefix. The first project that
writes there claims the prefix; another one is refused. Manifests of versions without ids count as the project's own.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore
from holdfast.resources.vault.objects.manifest import Manifest, UnusableSnapshotError

OWNER_KEY = "holdfast-project.json"


class ForeignSnapshotError(UnusableSnapshotError):
    """A snapshot of another project: never restored, dropped or set aside."""

    def __init__(self, manifest: Manifest) -> None:
        super().__init__(
            f"snapshot {manifest.id} of {manifest.stream} belongs to another project ({manifest.owner})",
            hint="give each project its own object_store.prefix; `holdfast restore --from` copies a snapshot of another",
        )
        self.manifest = manifest


@dataclass(slots=True)
class Ownership:
    """The claim of a project on a prefix; without an id everything is accepted."""

    store: ObjectStore
    read_project_id: Callable[[], str]
    _project_id: str | None = None
    _is_checked: bool = False

    @property
    def project_id(self) -> str:
        """The id of this project; empty if the vault is read on behalf of none."""
        if self._project_id is None:
            self._project_id = self.read_project_id()
        return self._project_id

    def require_prefix(self, *, claim: bool) -> None:
        """Raise if the prefix is another project's; with `claim` a prefix without an owner gets this one."""
        if self._is_checked or not self.project_id:
            return
        owner = self._read_owner()
        if owner is None and claim:
            self.store.create(OWNER_KEY, json.dumps({"project": self.project_id}).encode())
            owner = self._read_owner()  # another project may have claimed it at the same time
        if owner not in (None, self.project_id):
            raise PermanentError(
                f"the snapshots in this bucket and prefix belong to another project ({owner}, by {OWNER_KEY}); "
                f"this one is {self.project_id}",
                hint="declare another object_store.prefix or bucket, or check control_store.url; "
                "`holdfast restore --from` copies a snapshot of another project",
            )
        self._is_checked = owner is not None

    def require_own(self, manifest: Manifest) -> Manifest:
        """Return the manifest; `ForeignSnapshotError` if it is another project's."""
        if self.project_id and manifest.owner not in ("", self.project_id):
            raise ForeignSnapshotError(manifest)
        return manifest

    def _read_owner(self) -> str | None:
        try:
            return str(json.loads(self.store.get(OWNER_KEY))["project"])
        except MissingObjectError:
            return None
        except (ValueError, LookupError, TypeError) as error:
            raise PermanentError(
                f"the object {OWNER_KEY} of the object store cannot be read: {error}",
                hint="find out which project uses this bucket and prefix, then delete the object",
            ) from error
