"""The prove playbook: a snapshot is proven if its next epoch gives the result that the stream committed.

The snapshot is restored into a scratch folder, the stream's own query computes one epoch from there without
sending, and the result is compared with the ledger. The stream itself is not touched.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveFacts:
    """A snapshot that covers all epochs up to `epoch`, and the progress of its proof."""

    snapshot: str
    epoch: int
    restored: bool = False
    agrees: bool = False
    seconds: float = 0.0
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class RestoreScratch:
    """Restore the snapshot into a scratch folder, every digest verified."""

    name: ClassVar = "RestoreScratch"
    snapshot: str

    def describe(self) -> str:
        return f"restores {self.snapshot} into a scratch folder, every digest verified"

    def after(self, facts: ProveFacts) -> ProveFacts:
        return replace(facts, restored=True)


@dataclass(frozen=True, slots=True)
class Recompute:
    """Start Spark, and compute the next epoch, which the stream has committed, from the snapshot."""

    name: ClassVar = "Recompute"
    epoch: int

    def describe(self) -> str:
        return (
            f"starts Spark, computes epoch {self.epoch} from there without sending, and compares "
            "the result with what was committed"
        )

    def after(self, facts: ProveFacts) -> ProveFacts:
        return replace(facts, agrees=True)


@dataclass(frozen=True, slots=True)
class RecordProof:
    """Record in the catalogue that the snapshot is proven, and how long the proof took."""

    name: ClassVar = "RecordProof"
    snapshot: str
    seconds: float

    def describe(self) -> str:
        return f"records when {self.snapshot} was proven, and how long it took"

    def after(self, facts: ProveFacts) -> ProveFacts:
        return replace(facts, recorded=True)


ProveStep: TypeAlias = RestoreScratch | Recompute | RecordProof


def next_step(facts: ProveFacts) -> ProveStep | None:
    """The next step; `None` when the snapshot is proven."""
    match facts:
        case ProveFacts(restored=False):
            return RestoreScratch(facts.snapshot)
        case ProveFacts(agrees=False):
            return Recompute(facts.epoch + 1)
        case ProveFacts(recorded=False):
            return RecordProof(facts.snapshot, facts.seconds)
        case _:
            return None
