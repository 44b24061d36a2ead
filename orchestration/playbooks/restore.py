"""The restore playbook: a stream back at a past epoch, state and output alike, and then on from there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assets import catalogue
from ft_policies.errors import PermanentError
from ft_policies.restore import (
    BeginHistory,
    EndRestore,
    FetchSnapshot,
    MarkSnapshots,
    Observed,
    RollOutput,
    StartStream,
    Step,
    StopStream,
    foreseen,
    next_step,
)
from orchestration.playbooks.declaring import declare_now, demand_same_past
from orchestration.playbooks.leaving import DEFAULT_PATIENCE_SECONDS
from orchestration.playbooks.performing import Journaled, Performed, perform
from orchestration.playbooks.recover import Recovery
from orchestration.playbooks.restore_point import (
    Asked,
    Fetch,
    Point,
    demand_source,
    epoch_of,
    find_point,
    is_here,
    to_fetch,
)
from orchestration.playbooks.restore_tables import Tables, tables_of
from orchestration.playbooks.stop import see_off
from resources.control.records import DesiredState, History
from streaming.observing import observe
from streaming.sinks.rollback import RollbackPoint
from streaming.world import World

PLAYBOOK = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """One restore of one stream; `fetch` is brought from elsewhere first."""

    world: World
    restore: History
    run: str
    fetch: Fetch | None = None
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS
    beat: Callable[[], None] = lambda: None

    def steps(self) -> Iterator[Performed[Step]]:
        """Perform what is left of it; whoever performs it may die at any point."""
        journal = Journaled(
            store=self.world.store, stream=self.stream, playbook=PLAYBOOK, run=self.run
        )

        def decide() -> Step | None:
            return next_step(self.observed())

        return perform(decide, self._act, journal)

    @property
    def stream(self) -> str:
        """Whose restore it is."""
        return self.restore.stream

    def observed(self) -> Observed:
        """How far the world has come with it."""
        store, wish = self.world.store, self.restore
        now = self._row()
        row = store.streams.get(wish.stream)
        wanted = row is not None and row.desired is DesiredState.RUNNING
        return Observed(
            history=now.history,
            epoch=now.epoch,
            was_running=now.was_running,
            wanted=wanted,
            lives=bool(store.replicas.of(wish.stream)),
            fetch=None if now.finished else self._yet_to_come(),
            begun=now.begun,
            marked=now.begun and (now.finished or self._is_marked()),
            rolled=now.begun and (now.finished or self._tables.is_rolled(now.history)),
            finished=now.finished,
            level=now.finished and wanted and observe(self.world, wish.stream).needs_nothing,
        )

    def _act(self, step: Step) -> Mapping[str, Any]:
        match step:
            case FetchSnapshot():
                return self._fetch(step.snapshot)
            case StopStream():
                return self._stop()
            case BeginHistory():
                return {"entries_set_aside": self.world.store.histories.begin(self.restore)}
            case MarkSnapshots():
                vault = self.world.vault(self.stream)
                vault.mark(step.history, after_epoch=step.epoch)
                return {"superseded": len(vault.listing().superseded)}
            case RollOutput():
                turn = RollbackPoint(stream=self.stream, history=step.history, epoch=step.epoch)
                return self._tables.roll(turn)
            case EndRestore():
                # Before it is wanted again: whoever launches then goes by what was mended.
                declare_now(self.world, self.stream)
                self.world.store.histories.finish(self.restore)
                return {}
            case StartStream():
                return self._start()

    def _row(self) -> History:
        """The restore as it is by now; an error if it is no more."""
        known = self.world.store.histories.of(self.stream)
        for one in known:
            if one.is_to_the_point_of(self.restore):
                return one
        if not known or known[0].history < self.restore.history:
            raise PermanentError(
                f"{self.stream} was started before its restore to epoch {self.restore.epoch} began",
                hint="nothing was undone; restore again if it should be",
            )
        epoch = known[0].epoch
        raise PermanentError(
            f"another restore of {self.stream}, to epoch {epoch}, took the place of the one to "
            f"epoch {self.restore.epoch}",
            hint=f"`holdfast restore {self.stream} --epoch {epoch}` sees that through; then restore again",
        )

    def _stop(self) -> Mapping[str, Any]:
        if not self.world.store.histories.stop_for(self.restore):
            return {"steps": []}
        patience = self.patience_seconds
        done = list(see_off(self.world, self.stream, self.run, patience_seconds=patience))
        return {"steps": [one.name for one in done]}

    def _start(self) -> Mapping[str, Any]:
        self.world.ensure_object_store()
        declare_now(self.world, self.stream)
        recovery = Recovery(world=self.world, stream=self.stream, run=self.run, beat=self.beat)
        found: dict[str, Any] = {}
        for performed in recovery.steps():
            found |= performed.found
        return found

    def _fetch(self, snapshot: str) -> Mapping[str, Any]:
        assert self.fetch is not None, "it was decided on it"  # noqa: S101
        source = self.fetch.source
        return catalogue.adopt(self.world, self.stream, source.manifest(snapshot), source)

    @property
    def _tables(self) -> Tables:
        return tables_of(self.world, self.stream)

    def _yet_to_come(self) -> str | None:
        if self.fetch is None or is_here(self.world, self.stream, self.fetch.snapshot):
            return None
        return self.fetch.snapshot

    def _is_marked(self) -> bool:
        return self.restore.history in self.world.vault(self.stream).listing().histories


def restore(
    world: World,
    stream: str,
    asked: Asked,
    run: str,
    *,
    why: str,
    keep_output: bool = False,
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
    beat: Callable[[], None] = lambda: None,
) -> Iterator[Performed[Step]]:
    """Take a stream back to a point, or finish what another run has left of that."""
    world.ensure_object_store()
    demand_same_past(world, stream, done="restored")
    left = left_over(world, stream, asked)
    if left is None:
        point = preflight(world, stream, asked, keep_output=keep_output)
        left = world.store.histories.want(
            stream, epoch=point.epoch, snapshot=point.snapshot_id, why=why, run=run
        )
    return Restore(
        world=world,
        restore=left,
        run=run,
        fetch=to_fetch(world, stream, asked, left.epoch),
        patience_seconds=patience_seconds,
        beat=beat,
    ).steps()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of a restore, and its point; without one it goes on where another was left."""

    epoch: int
    point: Point | None
    steps: list[Step]


def restore_plan(world: World, stream: str, asked: Asked, *, keep_output: bool = False) -> Plan:
    """What `restore` would do, as far as one look can tell; an error says why it would not."""
    world.ensure_object_store()
    demand_same_past(world, stream, done="restored")
    left = left_over(world, stream, asked)
    if left is not None:
        fetch = to_fetch(world, stream, asked, left.epoch)
        seen = Restore(world=world, restore=left, run="", fetch=fetch).observed()
        return Plan(epoch=left.epoch, point=None, steps=foreseen(seen))
    point = preflight(world, stream, asked, keep_output=keep_output)
    tables = tables_of(world, stream)
    newest, row = world.store.histories.newest(stream), world.store.streams.get(stream)
    wanted = row is not None and row.desired is DesiredState.RUNNING
    fetch = to_fetch(world, stream, asked, point.epoch)
    seen = Observed(
        history=1 if newest is None else newest.history + newest.begun,
        epoch=point.epoch,
        was_running=wanted,
        wanted=wanted,
        lives=bool(world.store.replicas.of(stream)),
        fetch=None if fetch is None else fetch.snapshot,
        rolled=tables.output is None and tables.dead_letters is None,
    )
    return Plan(epoch=point.epoch, point=point, steps=foreseen(seen))


def left_over(world: World, stream: str, asked: Asked) -> History | None:
    """The restore to this point that is not done, or just done; nothing was committed since.

    Without a point it is the one that is half done. Half done and to another point is an error. One
    that is done is not done if a snapshot is yet to come from elsewhere.
    """
    newest = world.store.histories.newest(stream)
    if newest is None or not newest.begun:
        return None
    if newest.half_done:
        return _to_be_finished(world, newest, asked)
    epoch, last = epoch_of(world, stream, asked), world.store.ledger.last(stream)
    if last is None or not last.epoch == newest.epoch == epoch:
        return None
    return newest if to_fetch(world, stream, asked, epoch) is None else None


def _to_be_finished(world: World, half_done: History, asked: Asked) -> History:
    """The restore that is half done, unless another point is named: later ones are not committed now."""
    stream, epoch = half_done.stream, half_done.epoch
    try:
        same = not asked.names_point or epoch_of(world, stream, asked) == epoch
    except PermanentError:
        same = False
    if same:
        return half_done
    raise PermanentError(
        f"{stream} is being restored to epoch {epoch}, and that is half done",
        hint=f"`holdfast restore {stream} --epoch {epoch}` finishes it; then restore again",
    )


def preflight(world: World, stream: str, asked: Asked, *, keep_output: bool) -> Point:
    """The point, if nothing stands in the way; an error says what does, before anything is touched."""
    point = find_point(world, stream, asked)
    demand_source(world, stream, point.first_computed, point.last_decided)
    output = tables_of(world, stream).output
    if output is not None and keep_output:
        raise PermanentError(
            f"the output of {stream} is a table: it goes back with the state, or they would not agree",
            hint="leave --keep-output out; it is for sinks of your own",
        )
    if output is not None:
        output.version(stream, point.epoch)
    elif not keep_output:
        raise PermanentError(
            f"the output of {stream} goes to a function of yours, and Holdfast cannot take it back",
            hint="with --keep-output it stays as it is, and the function is called again for each "
            f"epoch after {point.epoch}: take back yourself what must not be there twice",
        )
    return point
