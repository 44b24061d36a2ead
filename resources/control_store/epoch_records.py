"""What stays of an epoch when it is pruned: the files that it had, how much was pruned, and where its output is."""

from dataclasses import dataclass


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
    """The table that has the output of a stream: its own id, which a copy of it shares, and its path."""

    stream: str
    table_id: str
    path: str
    recorded_at: float = 0.0
