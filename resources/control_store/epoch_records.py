"""What stays of an epoch when it is pruned: the files that it had, how much was pruned, and where its output is."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import xxhash

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.records import Epoch

FILE_NOTES = frozenset(("skipped", "rows", "mount"))
POSITION_NOTES = frozenset(("mount", "taken_until_ns"))
FORGOTTEN = ""
"""Not the name of a file: its time of change is that of the newest file whose name is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFile:
    """An input file that an epoch has, as it was when the epoch was decided."""

    stream: str
    name: str
    epoch: int
    size: int | None
    changed_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFloor:
    """How far the epoch log and the ledger of a stream are pruned: `first_epoch` is the oldest that is kept.

    `rows` are the input rows of the pruned epochs, `entered_rows` the output rows of their ledger entries.
    """

    stream: str
    first_epoch: int = 0
    rows: int = 0
    entered_rows: int = 0
    pruned_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRow:
    """The table that has the output of a stream: the name or id in its metadata, which a copy shares, and its path."""

    stream: str
    table_id: str
    path: str
    recorded_at: float = 0.0


class LostCommitError(PermanentError):
    """The control store has lost a decision or an entry that a replica has read or written."""


def digest_input(epoch: Epoch) -> str:
    """The digest of a decided input; a gap, which marks lost files and counts their rows, does not change it.

    Nor does what a source notes beside it for later listings.
    """
    files = (epoch.input or {}).get("files")
    decided = epoch.input if files is None else [_identity(file, FILE_NOTES) for file in files]
    positions = [_identity(epoch.start, POSITION_NOTES), _identity(epoch.end, POSITION_NOTES)]
    text = json.dumps([*positions, decided], sort_keys=True, separators=(",", ":"))
    return xxhash.xxh64_hexdigest(text.encode())


def _identity(record: Any, notes: Collection[str]) -> Any:
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name not in notes}
