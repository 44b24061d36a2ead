"""Restoring a stream in place: state and output back at an epoch, and then on from there.

The epoch log stays as it is: an epoch's input is decided once. Only what was made of the epochs after
the point is undone, and the stream computes them again. From `BeginHistory` on nothing that a replica
of the older history still does counts; so every later step may be repeated, by any run, at any time.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """A requested restore, and how far it has come.

    `fetch` is a snapshot that is yet to be copied from elsewhere.
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
    caught_up: bool = False
    """Whether a stream that should run has what its tier needs."""


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """Copy a snapshot from elsewhere to the stream's own, every byte verified."""

    name: ClassVar = "FetchSnapshot"
    snapshot: str

    def describe(self) -> str:
        return f"copies {self.snapshot} to the stream's own snapshots, every byte verified"

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, fetch=None)


@dataclass(frozen=True, slots=True)
class StopStream:
    """Record that the stream should not run, and stop its replicas."""

    name: ClassVar = "StopStream"

    def describe(self) -> str:
        return "stops the replicas; one that does not leave in time is ended"

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, wanted=False, lives=False)


@dataclass(frozen=True, slots=True)
class BeginHistory:
    """End the history that the stream had: its entries in the ledger beyond the epoch are set aside."""

    name: ClassVar = "BeginHistory"
    history: int
    epoch: int

    def describe(self) -> str:
        return (
            f"begins history {self.history}: the ledger's entries after epoch {self.epoch} are set "
            "aside, and nothing that an older replica still does counts"
        )

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, begun=True)


@dataclass(frozen=True, slots=True)
class MarkSnapshots:
    """Mark older snapshots beyond the epoch as superseded in the object store."""

    name: ClassVar = "MarkSnapshots"
    history: int
    epoch: int

    def describe(self) -> str:
        return f"marks snapshots after epoch {self.epoch} as superseded"

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, marked=True)


@dataclass(frozen=True, slots=True)
class RollOutput:
    """Take the output back to the epoch, and shut it for replicas of the older history."""

    name: ClassVar = "RollOutput"
    history: int
    epoch: int

    def describe(self) -> str:
        return f"takes the output back to epoch {self.epoch}, and shuts it for older replicas"

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, rolled=True)


@dataclass(frozen=True, slots=True)
class EndRestore:
    """Record that state and output are back, and apply the current declaration; a stream that ran runs again."""

    name: ClassVar = "EndRestore"
    history: int

    def describe(self) -> str:
        return (
            "records that state and output are back; the stream goes by what is declared now, and "
            "is wanted again if it ran"
        )

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, finished=True, wanted=facts.was_running, caught_up=False)


@dataclass(frozen=True, slots=True)
class StartStream:
    """Start the stream, and wait until it has computed again what was undone."""

    name: ClassVar = "StartStream"

    def describe(self) -> str:
        return "starts the stream, and waits until it has computed again what was undone"

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, lives=True, caught_up=True)


RestoreStep: TypeAlias = (
    FetchSnapshot
    | StopStream
    | BeginHistory
    | MarkSnapshots
    | RollOutput
    | EndRestore
    | StartStream
)


def next_step(facts: RestoreFacts) -> RestoreStep | None:
    """The one step that is safe now; `None` when the stream is back at the epoch and on its way."""
    match facts:
        case RestoreFacts(finished=True):
            return StartStream() if facts.wanted and not facts.caught_up else None
        case RestoreFacts(fetch=str(snapshot)):
            return FetchSnapshot(snapshot)
        case RestoreFacts(wanted=True) | RestoreFacts(lives=True):
            return StopStream()
        case RestoreFacts(begun=False):
            return BeginHistory(facts.history, facts.epoch)
        case RestoreFacts(marked=False):
            return MarkSnapshots(facts.history, facts.epoch)
        case RestoreFacts(rolled=False):
            return RollOutput(facts.history, facts.epoch)
        case _:
            return EndRestore(facts.history)
