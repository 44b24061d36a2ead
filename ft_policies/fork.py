"""Forking a stream: a new one that has the same past up to an epoch, and its own future and output.

The declaration comes last: until it is there nobody can start the fork, so one that was cut short is
no stream yet, and whoever forks again under the same name goes on where it was left.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from ft_policies.foreseeing import foresee


@dataclass(frozen=True, slots=True)
class CopySnapshot:
    """Copy the snapshot that the fork starts from, every byte verified."""

    snapshot: str


@dataclass(frozen=True, slots=True)
class CopyOutput:
    """Copy the output as it was after the epoch, in one commit."""

    epoch: int


@dataclass(frozen=True, slots=True)
class CopyEpochs:
    """Copy the epochs and their entries in the ledger."""

    epoch: int


@dataclass(frozen=True, slots=True)
class WriteDeclaration:
    """Declare the fork: from now on it can be started."""

    file: str


Step: TypeAlias = CopySnapshot | CopyOutput | CopyEpochs | WriteDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A fork that was asked for, and what there is of it; without a snapshot it computes all anew."""

    epoch: int
    snapshot: str | None
    file: str
    has_snapshot: bool = False
    has_output: bool = False
    has_epochs: bool = False
    declared: bool = False


def next_step(seen: Observed) -> Step | None:
    """What comes next; `None` when the fork is a stream like others."""
    match seen:
        case Observed(declared=True):
            return None
        case Observed(snapshot=str(snapshot), has_snapshot=False):
            return CopySnapshot(snapshot)
        case Observed(has_output=False):
            return CopyOutput(seen.epoch)
        case Observed(has_epochs=False):
            return CopyEpochs(seen.epoch)
        case _:
            return WriteDeclaration(seen.file)


def foreseen(seen: Observed) -> list[Step]:
    """All steps that are to come, each taken to succeed."""
    return foresee(seen, next_step, _after)


def _after(seen: Observed, step: Step) -> Observed:
    match step:
        case CopySnapshot():
            return replace(seen, has_snapshot=True)
        case CopyOutput():
            return replace(seen, has_output=True)
        case CopyEpochs():
            return replace(seen, has_epochs=True)
        case WriteDeclaration():
            return replace(seen, declared=True)
