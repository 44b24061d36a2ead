"""Restoring a stream in place: state and output back at an epoch, and then on from there.

The epoch log stays as it is: an epoch's input is decided once. Only what was made of the epochs after
the point is undone, and the stream computes them again. From `BeginHistory` on nothing that a replica
of the older history still does counts; so all later steps may be repeated, by whomever, whenever.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from ft_policies.foreseeing import foresee


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """Copy a snapshot from elsewhere to the stream's own, every byte verified."""

    snapshot: str


@dataclass(frozen=True, slots=True)
class StopStream:
    """Want the stream not to run, and see its replicas off."""


@dataclass(frozen=True, slots=True)
class BeginHistory:
    """End the history that the stream had: its entries in the ledger beyond the epoch are set aside."""

    history: int
    epoch: int


@dataclass(frozen=True, slots=True)
class MarkSnapshots:
    """Say in the object store that older snapshots beyond the epoch count no more."""

    history: int
    epoch: int


@dataclass(frozen=True, slots=True)
class RollOutput:
    """Take the output back to the epoch, and shut it for replicas of the older history."""

    history: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EndRestore:
    """Note that state and output are back, and go by what is declared now; a stream that ran is wanted again."""

    history: int


@dataclass(frozen=True, slots=True)
class StartStream:
    """Start the stream, and wait until it has computed again what was undone."""


Step: TypeAlias = (
    FetchSnapshot
    | StopStream
    | BeginHistory
    | MarkSnapshots
    | RollOutput
    | EndRestore
    | StartStream
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A restore that was asked for, and how far the world has come with it.

    `fetch` is a snapshot that is yet to come from elsewhere.
    """

    history: int
    epoch: int
    was_running: bool
    wanted: bool
    lives: bool
    fetch: str | None = None
    begun: bool = False
    marked: bool = False
    rolled: bool = False
    finished: bool = False
    level: bool = False
    """Whether a stream that is wanted does what it should."""


def next_step(seen: Observed) -> Step | None:
    """The one step that is safe now; `None` when the stream is back at the epoch and on its way."""
    match seen:
        case Observed(finished=True):
            return StartStream() if seen.wanted and not seen.level else None
        case Observed(fetch=str(snapshot)):
            return FetchSnapshot(snapshot)
        case Observed(wanted=True) | Observed(lives=True):
            return StopStream()
        case Observed(begun=False):
            return BeginHistory(seen.history, seen.epoch)
        case Observed(marked=False):
            return MarkSnapshots(seen.history, seen.epoch)
        case Observed(rolled=False):
            return RollOutput(seen.history, seen.epoch)
        case _:
            return EndRestore(seen.history)


def foreseen(seen: Observed) -> list[Step]:
    """All steps that are to come, each taken to succeed."""
    return foresee(seen, next_step, _after)


def _after(seen: Observed, step: Step) -> Observed:
    match step:
        case FetchSnapshot():
            return replace(seen, fetch=None)
        case StopStream():
            return replace(seen, wanted=False, lives=False)
        case BeginHistory():
            return replace(seen, begun=True)
        case MarkSnapshots():
            return replace(seen, marked=True)
        case RollOutput():
            return replace(seen, rolled=True)
        case EndRestore():
            return replace(seen, finished=True, wanted=seen.was_running, level=False)
        case StartStream():
            return replace(seen, lives=True, level=True)
