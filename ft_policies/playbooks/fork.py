"""The fork playbook: a new stream with the same past up to an epoch, and its own future and output.

The declaration comes last: until it exists the fork cannot be started. So an interrupted fork is not a
stream yet, and the next fork with the same name continues it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkFacts:
    """A requested fork and its progress; without a snapshot the fork computes all epochs again."""

    epoch: int
    snapshot: str | None
    file: str
    has_snapshot: bool = False
    has_output: bool = False
    has_epochs: bool = False
    declared: bool = False


@dataclass(frozen=True, slots=True)
class CopySnapshot:
    """Copy the snapshot that the fork starts from, every byte verified."""

    name: ClassVar = "CopySnapshot"
    snapshot: str

    def describe(self) -> str:
        return f"copies {self.snapshot}, and verifies every byte of the copy"

    def after(self, facts: ForkFacts) -> ForkFacts:
        return replace(facts, has_snapshot=True)


@dataclass(frozen=True, slots=True)
class CopyOutput:
    """Copy the output as it was after the epoch, in one commit."""

    name: ClassVar = "CopyOutput"
    epoch: int

    def describe(self) -> str:
        return f"copies the output as it was after epoch {self.epoch}, in one commit"

    def after(self, facts: ForkFacts) -> ForkFacts:
        return replace(facts, has_output=True)


@dataclass(frozen=True, slots=True)
class CopyEpochs:
    """Copy the epochs and their entries in the ledger."""

    name: ClassVar = "CopyEpochs"
    epoch: int

    def describe(self) -> str:
        return f"copies the epochs up to {self.epoch} and their entries in the ledger"

    def after(self, facts: ForkFacts) -> ForkFacts:
        return replace(facts, has_epochs=True)


@dataclass(frozen=True, slots=True)
class WriteDeclaration:
    """Declare the fork, so that it can be started."""

    name: ClassVar = "WriteDeclaration"
    file: str

    def describe(self) -> str:
        return f"writes {self.file}; after that the fork can be started"

    def after(self, facts: ForkFacts) -> ForkFacts:
        return replace(facts, declared=True)


ForkStep: TypeAlias = CopySnapshot | CopyOutput | CopyEpochs | WriteDeclaration


def next_step(facts: ForkFacts) -> ForkStep | None:
    """The next step; `None` when the fork is complete."""
    match facts:
        case ForkFacts(declared=True):
            return None
        case ForkFacts(snapshot=str(snapshot), has_snapshot=False):
            return CopySnapshot(snapshot)
        case ForkFacts(has_output=False):
            return CopyOutput(facts.epoch)
        case ForkFacts(has_epochs=False):
            return CopyEpochs(facts.epoch)
        case _:
            return WriteDeclaration(facts.file)
