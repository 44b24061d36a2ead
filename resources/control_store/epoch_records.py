"""What belongs to epochs: input that is skipped, and what stays of an epoch when it is pruned."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import xxhash

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.records import Epoch

FILE_NOTES = frozenset(("skipped", "rows", "mount"))
POSITION_NOTES = frozenset(("mount", "taken_until_ns"))
RowsByFile: TypeAlias = dict[str, int]
LOST_STATE = "<state>"
FORGOTTEN = ""
"""Not the name of a file: its time of change is that of the newest file whose name is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Input that is skipped: by epoch the names of `files`, with the rows that each had.

    `last_entered` is the last epoch of the ledger at that time: output from `first_epoch` up to there contains the
    input. Of input that was skipped as its epoch was decided, no output does. A gap of state has all rows as `LOST_STATE`.
    """

    stream: str
    gap: int
    first_epoch: int
    last_entered: int
    files: dict[int, RowsByFile]
    run: str
    opened_at: float = 0.0

    @property
    def rows(self) -> int:
        """The number of lost rows."""
        return sum(sum(names.values()) for names in self.files.values())

    @property
    def file_count(self) -> int:
        """Of how many files that is known: the names are forgotten long after the epochs are pruned."""
        return sum(name not in ("", LOST_STATE) for names in self.files.values() for name in names)

    @property
    def is_of_state(self) -> bool:
        """Whether later output is computed without the state of these epochs, whose own output is there."""
        return any(LOST_STATE in names for names in self.files.values())

    def excuses(self, epoch: int) -> bool:
        """Whether the output of an epoch contains input that can no longer be read."""
        return self.first_epoch <= epoch <= self.last_entered


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
