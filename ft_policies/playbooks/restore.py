"""The restore playbook: rolls the state and output of a stream back to an epoch, and continues from there.

The epoch log does not change: the input of an epoch is decided once. Only the results of later epochs are
undone, and the stream computes them again. From `BeginHistory` on nothing that a replica of an older history
still does has an effect; so every later step may be repeated, by any run, at any time.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """A requested restore and its progress.

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
    """Whether a stream that should run has caught up and covers its tier."""


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
        return "stops the replicas; a replica that does not leave in time is ended by force"

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, wanted=False, lives=False)


@dataclass(frozen=True, slots=True)
class BeginHistory:
    """Begin a new history: the ledger entries after the epoch are set aside."""

    name: ClassVar = "BeginHistory"
    history: int
    epoch: int

    def describe(self) -> str:
        return (
            f"begins history {self.history}: ledger entries after epoch {self.epoch} are set aside, "
            "and older replicas have no effect any more"
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
    """Roll the output back to the epoch, and close it to replicas of the older history."""

    name: ClassVar = "RollOutput"
    history: int
    epoch: int

    def describe(self) -> str:
        return f"rolls the output back to epoch {self.epoch}, and closes it to older replicas"

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, rolled=True)


@dataclass(frozen=True, slots=True)
class EndRestore:
    """Record the end of the restore and apply the current declaration; a stream that ran runs again."""

    name: ClassVar = "EndRestore"
    history: int

    def describe(self) -> str:
        return (
            "records the end of the restore and applies the current declaration; a stream that ran "
            "before is to run again"
        )

    def after(self, facts: RestoreFacts) -> RestoreFacts:
        return replace(facts, finished=True, wanted=facts.was_running, caught_up=False)


@dataclass(frozen=True, slots=True)
class StartStream:
    """Start the stream, and wait until it has computed the undone epochs again."""

    name: ClassVar = "StartStream"

    def describe(self) -> str:
        return "starts the stream, and waits until it has computed the undone epochs again"

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
    """The next step that is safe; `None` when the stream has been restored and has caught up."""
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
