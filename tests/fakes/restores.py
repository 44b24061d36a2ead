"""Restores and forks in memory: the performer may die, and a zombie goes on writing meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.ft_policies.playbooks import fork, restore
from tests.fakes.stream import Crash

LAST = 9


@dataclass
class SimulatedRestore:
    """A stream that committed the epochs up to `LAST`, and its restore to an earlier one.

    What is written down is the epoch, and the history of who wrote it. A zombie is a replica of the first
    history that knows of nothing: it writes wherever it is let. `fates` says what befalls the performer
    at each action: it dies "before" or "after" it.
    """

    epoch: int
    was_running: bool
    fates: list[str] = field(default_factory=list)
    zombie_acts: list[bool] = field(default_factory=list)
    ledger: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(LAST + 1), 0))
    table: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(LAST + 1), 0))
    snapshots: set[tuple[int, int]] = field(default_factory=lambda: {(3, 0), (6, 0), (9, 0)})
    marked: bool = False
    table_open_for: int = 0
    history: int = 0
    finished: bool = False
    caught_up: bool = False
    wanted: bool = field(init=False)
    lives: bool = field(init=False)
    _zombie_at: int = LAST

    def __post_init__(self) -> None:
        self.wanted = self.lives = self.was_running

    def observed(self, *, begun: bool, finished: bool) -> restore.RestoreFacts:
        """What one sees who has read the restore's row a moment ago."""
        return restore.RestoreFacts(
            history=1,
            epoch=self.epoch,
            was_running=self.was_running,
            wanted=self.wanted,
            lives=self.lives,
            begun=begun,
            marked=finished or self.marked,
            rolled=finished or self.table_open_for == 1,
            finished=finished,
            caught_up=self.caught_up,
        )

    def perform(self) -> Iterator[restore.RestoreStep]:
        return (step for step in self.turns() if step is not None)

    def turns(self) -> Iterator[restore.RestoreStep | None]:
        """The same with pauses, in which another performer may act: within each look and after it."""
        while True:
            begun, finished = self.history == 1, self.finished
            yield None
            step = restore.next_step(self.observed(begun=begun, finished=finished))
            if step is None:
                return
            yield None
            fate = self.fates.pop(0) if self.fates else "lives"
            self._maybe_zombie()
            if fate == "before":
                raise Crash
            self._act(step)
            self._maybe_zombie()
            if fate == "after":
                raise Crash
            yield step

    def together(self, schedule: list[bool]) -> None:
        """Two performers at once: who has the next turn, until both are done."""
        first, second = self.turns(), self.turns()
        for turn in schedule:
            next(first if turn else second, None)
        for performer in (first, second):
            list(performer)

    def zombie(self) -> None:
        """Commit the next epoch, as far as table and ledger let it, and ship a snapshot of it."""
        self._zombie_at += 1
        if self.table_open_for == 0:
            self.table[self._zombie_at] = 0
        if self.history == 0:
            self.ledger[self._zombie_at] = 0
        self.snapshots.add((self._zombie_at, 0))

    def countable(self) -> set[tuple[int, int]]:
        """The snapshots that may be restored."""
        return {
            (epoch, history)
            for epoch, history in self.snapshots
            if not self.marked or epoch <= self.epoch or history
        }

    def _maybe_zombie(self) -> None:
        if self.zombie_acts and self.zombie_acts.pop(0):
            self.zombie()

    def _act(self, step: restore.RestoreStep) -> None:  # noqa: C901 (one case per step)
        match step:
            case restore.StopStream():
                if not self.finished:
                    self.wanted = self.lives = False
            case restore.BeginHistory():
                if self.history == 0 and not (self.wanted or self.lives):
                    self.ledger = {e: h for e, h in self.ledger.items() if e <= step.epoch}
                    self.history = step.history
            case restore.MarkSnapshots():
                self.marked = True
            case restore.RollOutput():
                if self.table_open_for != step.history:
                    self.table = {e: h for e, h in self.table.items() if e <= step.epoch}
                    self.table_open_for = step.history
            case restore.EndRestore():
                self._require_back()
                if not self.finished:
                    self.finished, self.wanted = True, self.was_running
            case restore.StartStream():
                self._require_back()
                self.lives = self.caught_up = True
            case restore.FetchSnapshot():
                raise AssertionError("there is nothing to fetch")

    def _require_back(self) -> None:
        """A replica that starts now begins at the epoch, with nothing after it."""
        assert max(self.ledger) == max(self.table) == self.epoch
        assert all(epoch <= self.epoch for epoch, _ in self.countable())


@dataclass
class SimulatedFork:
    """A fork that comes about piece by piece; it counts as a stream once it is declared."""

    snapshot: str | None
    fates: list[str] = field(default_factory=list)
    made: set[type] = field(default_factory=set)

    def observed(self) -> fork.ForkFacts:
        return fork.ForkFacts(
            epoch=5,
            snapshot=self.snapshot,
            file="fork.yaml",
            has_snapshot=fork.CopySnapshot in self.made,
            has_output=fork.CopyOutput in self.made,
            has_epochs=fork.CopyEpochs in self.made,
            declared=fork.WriteDeclaration in self.made,
        )

    def perform(self) -> Iterator[fork.ForkStep]:
        while (step := fork.next_step(self.observed())) is not None:
            fate = self.fates.pop(0) if self.fates else "lives"
            if fate == "before":
                raise Crash
            self.made.add(type(step))
            if fate == "after":
                raise Crash
            yield step
