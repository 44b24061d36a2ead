"""The restore playbook: a stream back at a past epoch, state and output alike, and then on from there."""

from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.base import plan_steps
from holdfast.ft_policies.playbooks.restore import (
    BeginHistory,
    EndRestore,
    FetchSnapshot,
    MarkSnapshots,
    RestoreFacts,
    RestoreStep,
    RollOutput,
    StartStream,
    StopStream,
    next_step,
)
from holdfast.ft_policies.timings import LEAVE_WITHIN_SECONDS
from holdfast.observation.status import observe
from holdfast.orchestration.playbooks.base import InnerSteps, StepResult, StreamPlaybook
from holdfast.orchestration.playbooks.declaration import apply_declaration, require_same_past
from holdfast.orchestration.playbooks.lifecycle import StopReplicas
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.restore.point import (
    Fetch,
    RestorePoint,
    RestoreTarget,
    epoch_of,
    find_point,
    is_here,
    require_source,
    to_fetch,
)
from holdfast.orchestration.playbooks.restore.tables import Tables, tables_of
from holdfast.resources.control_store.records import DesiredState, RestoreRow
from holdfast.resources.project import Project
from holdfast.resources.vault import catalogue
from holdfast.streaming.sinks.rollback import RollbackPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCopied(StepResult):
    """How much was copied from elsewhere."""

    packs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class HistoryBegun(StepResult):
    """How many entries of the ledger were set aside; `None` if nothing was changed."""

    entries_set_aside: int | None


@dataclass(frozen=True, slots=True)
class SnapshotsMarked(StepResult):
    """How many snapshots count no more."""

    superseded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePreview:
    """What a restore would do, and its point; without one it goes on where another was left."""

    facts: RestoreFacts
    point: RestorePoint | None

    @property
    def epoch(self) -> int:
        """The epoch that the stream goes back to."""
        return self.facts.epoch

    @property
    def steps(self) -> list[RestoreStep]:
        """The steps that are to come, each assumed to succeed."""
        return plan_steps(self.facts, next_step)


@dataclass(kw_only=True)
class Restore(StreamPlaybook[RestoreFacts, RestoreStep]):
    """Take a stream back to a point, or finish what another run has left of that."""

    name: ClassVar = "restore"
    target: RestoreTarget
    why: str = ""
    keep_output: bool = False
    patience_seconds: float = LEAVE_WITHIN_SECONDS
    _restore: RestoreRow | None = field(default=None, init=False)
    _fetch: Fetch | None = field(default=None, init=False)

    def begin(self) -> None:
        left = self._left_over()
        if left is None:
            point = self._preflight()
            left = self.world.store.restores.want(
                self.stream,
                epoch=point.epoch,
                snapshot=point.snapshot_id,
                why=self.why,
                run=self.run,
            )
        self._resume(left)

    def preview(self) -> RestoreFacts:
        return self.look_ahead().facts

    def look_ahead(self) -> RestorePreview:
        """What it would do, as far as one look can tell; an error says why it would not."""
        left = self._left_over()
        if left is not None:
            self._resume(left)
            return RestorePreview(facts=self.observe(), point=None)
        point, store = self._preflight(), self.world.store
        newest, wanted = store.restores.newest(self.stream), self._is_wanted()
        fetch = to_fetch(self.world, self.stream, self.target, point.epoch)
        tables = self._tables
        facts = RestoreFacts(
            history=1 if newest is None else newest.history + newest.begun,
            epoch=point.epoch,
            was_running=wanted,
            wanted=wanted,
            lives=bool(store.replicas.of(self.stream)),
            fetch=None if fetch is None else fetch.snapshot,
            rolled=tables.output is None and tables.dead_letters is None,
        )
        return RestorePreview(facts=facts, point=point)

    def observe(self) -> RestoreFacts:
        now = self._current()
        wanted = self._is_wanted()
        settled = now.finished and wanted and observe(self.world, self.stream).is_settled
        return RestoreFacts(
            history=now.history,
            epoch=now.epoch,
            was_running=now.was_running,
            wanted=wanted,
            lives=bool(self.world.store.replicas.of(self.stream)),
            fetch=None if now.finished else self._missing_snapshot(),
            begun=now.begun,
            marked=now.begun and (now.finished or self._is_marked()),
            rolled=now.begun and (now.finished or self._tables.is_rolled(now.history)),
            finished=now.finished,
            caught_up=settled,
        )

    def decide(self, facts: RestoreFacts) -> RestoreStep | None:
        return next_step(facts)

    def act(self, step: RestoreStep) -> StepResult:
        match step:
            case FetchSnapshot():
                return self._copy_snapshot(step.snapshot)
            case StopStream():
                return self._stop()
            case BeginHistory():
                return HistoryBegun(self.world.store.restores.begin(self._requested))
            case MarkSnapshots():
                vault = self.world.vault(self.stream)
                vault.mark(step.history, after_epoch=step.epoch)
                return SnapshotsMarked(len(vault.listing().superseded))
            case RollOutput():
                turn = RollbackPoint(stream=self.stream, history=step.history, epoch=step.epoch)
                return self._tables.roll(turn)
            case EndRestore():
                # Before it should run again: a launch then goes by what was mended.
                apply_declaration(self.world, self.stream)
                self.world.store.restores.finish(self._requested)
                return StepResult()
            case StartStream():
                return self._start()

    @property
    def _requested(self) -> RestoreRow:
        """The restore as it was recorded."""
        assert self._restore is not None, "a playbook is begun first"  # noqa: S101
        return self._restore

    def _left_over(self) -> RestoreRow | None:
        self.world.ensure_object_store()
        require_same_past(self.world, self.stream, done="restored")
        return left_over(self.world, self.stream, self.target)

    def _preflight(self) -> RestorePoint:
        return preflight(self.world, self.stream, self.target, keep_output=self.keep_output)

    def _resume(self, restore: RestoreRow) -> None:
        self._restore = restore
        self._fetch = to_fetch(self.world, self.stream, self.target, restore.epoch)

    def _is_wanted(self) -> bool:
        row = self.world.store.streams.get(self.stream)
        return row is not None and row.desired is DesiredState.RUNNING

    def _current(self) -> RestoreRow:
        """The restore as it is by now; an error if another took its place."""
        known, requested = self.world.store.restores.of(self.stream), self._requested
        for row in known:
            if row.is_to_the_point_of(requested):
                return row
        if not known or known[0].history < requested.history:
            raise PermanentError(
                f"{self.stream} was started before its restore to epoch {requested.epoch} began",
                hint="nothing was undone; restore again if it should be",
            )
        epoch = known[0].epoch
        raise PermanentError(
            f"another restore of {self.stream}, to epoch {epoch}, took the place of the one to "
            f"epoch {requested.epoch}",
            hint=f"`holdfast restore {self.stream} --epoch {epoch}` sees that through; then restore again",
        )

    def _stop(self) -> InnerSteps:
        if not self.world.store.restores.stop_for(self._requested):
            return InnerSteps([])
        stop = StopReplicas(
            self.world,
            self.stream,
            self.run,
            patience_seconds=self.patience_seconds,
            keep_alive=self.keep_alive,
        )
        return InnerSteps(list(stop.steps()))

    def _start(self) -> InnerSteps:
        self.world.ensure_object_store()
        apply_declaration(self.world, self.stream)
        recover = Recover(self.world, self.stream, self.run, keep_alive=self.keep_alive)
        return InnerSteps(list(recover.steps()))

    def _copy_snapshot(self, snapshot: str) -> SnapshotCopied:
        assert self._fetch is not None, "the step was decided from it"  # noqa: S101
        source = self._fetch.source
        copied = catalogue.adopt(self.world, self.stream, source.manifest(snapshot), source)
        return SnapshotCopied(**copied)

    @property
    def _tables(self) -> Tables:
        return tables_of(self.world, self.stream)

    def _missing_snapshot(self) -> str | None:
        if self._fetch is None or is_here(self.world, self.stream, self._fetch.snapshot):
            return None
        return self._fetch.snapshot

    def _is_marked(self) -> bool:
        return self._requested.history in self.world.vault(self.stream).listing().histories


def left_over(world: Project, stream: str, target: RestoreTarget) -> RestoreRow | None:
    """The restore to this point that is not done, or just done; nothing was committed since.

    Without a point it is the one that is half done. Half done and to another point is an error. One
    that is done is not done if a snapshot is yet to come from elsewhere.
    """
    newest = world.store.restores.newest(stream)
    if newest is None or not newest.begun:
        return None
    if newest.half_done:
        return _require_same_point(world, newest, target)
    epoch, last = epoch_of(world, stream, target), world.store.ledger.last(stream)
    if last is None or not last.epoch == newest.epoch == epoch:
        return None
    return newest if to_fetch(world, stream, target, epoch) is None else None


def _require_same_point(world: Project, half_done: RestoreRow, target: RestoreTarget) -> RestoreRow:
    """The restore that is half done, unless another point is named: later ones are not committed now."""
    stream, epoch = half_done.stream, half_done.epoch
    try:
        same = not target.names_point or epoch_of(world, stream, target) == epoch
    except PermanentError:
        same = False
    if same:
        return half_done
    raise PermanentError(
        f"{stream} is being restored to epoch {epoch}, and that is half done",
        hint=f"`holdfast restore {stream} --epoch {epoch}` finishes it; then restore again",
    )


def preflight(
    world: Project, stream: str, target: RestoreTarget, *, keep_output: bool
) -> RestorePoint:
    """The point, if nothing stands in the way; an error says what does, before anything is touched."""
    point = find_point(world, stream, target)
    require_source(world, stream, point.first_computed, point.last_decided)
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
