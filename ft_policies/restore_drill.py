"""The restore drill: a snapshot is proven by going on from it, and getting what the stream got.

The snapshot is restored into a scratch folder, the stream's own query goes on from there for one epoch
without sending, and what comes out is held against the ledger. Nothing fails, and nobody waits for it.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from ft_policies.foreseeing import foresee


@dataclass(frozen=True, slots=True)
class RestoreScratch:
    """Bring the snapshot into a folder that nobody else has, every digest verified."""

    snapshot: str


@dataclass(frozen=True, slots=True)
class Recompute:
    """Start Spark, and go on from the snapshot for one epoch that was committed before."""

    epoch: int


@dataclass(frozen=True, slots=True)
class NoteProof:
    """Write into the catalogue that the snapshot is good, and how long it took to know."""

    snapshot: str
    seconds: float


Step: TypeAlias = RestoreScratch | Recompute | NoteProof


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A snapshot that covers all epochs up to `epoch`, and how far its proof has come."""

    snapshot: str
    epoch: int
    restored: bool = False
    agrees: bool = False
    seconds: float = 0.0
    noted: bool = False


def next_step(seen: Observed) -> Step | None:
    """What comes next; `None` when the snapshot is proven."""
    match seen:
        case Observed(restored=False):
            return RestoreScratch(seen.snapshot)
        case Observed(agrees=False):
            return Recompute(seen.epoch + 1)
        case Observed(noted=False):
            return NoteProof(seen.snapshot, seen.seconds)
        case _:
            return None


def foreseen(seen: Observed) -> list[Step]:
    """All steps that are to come, each taken to succeed."""
    return foresee(seen, next_step, _after)


def _after(seen: Observed, step: Step) -> Observed:
    match step:
        case RestoreScratch():
            return replace(seen, restored=True)
        case Recompute():
            return replace(seen, agrees=True)
        case NoteProof():
            return replace(seen, noted=True)
