"""The restore playbook: takes state and output of a stream back to a past epoch, and continues from there."""

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
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.base import InnerSteps, StepResult, StreamPlaybook
from holdfast.orchestration.playbooks.declaration import apply_declaration, require_same_past
from holdfast.orchestration.playbooks.lifecycle import StopReplicas
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.restore.point import (
    Fetch,
    RestorePoint,
    RestoreTarget,
    epoch_of,
    find_fetch,
    find_point,
    has_whole_snapshot,
    require_source,
)
from holdfast.orchestration.playbooks.restore.tables import Tables, tables_of
from holdfast.resources.control_store.records import RestoreRow
from holdfast.resources.project import Project
from holdfast.resources.vault import catalogue
from holdfast.streaming.sinks.delta.rollback import RollbackPoint
from holdfast.streaming.sinks.ledger_writer import CLOSED_BY_RESTORE


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCopied(StepResult):
    """The size of the copy from another place."""

    packs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class HistoryBegun(StepResult):
    """How many entries of the ledger were set aside; `None` if nothing was changed."""

    entries_set_aside: int | None


@dataclass(frozen=True, slots=True)
class SnapshotsMarked(StepResult):
    """How many snapshots are superseded."""

    superseded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePreview:
    """The plan of a restore and its point; without a point it continues an unfinished restore."""

    facts: RestoreFacts
    point: RestorePoint | None

    @property
    def epoch(self) -> int:
        """The epoch that the stream goes back to."""
        return self.facts.epoch

    @property
    def steps(self) -> list[RestoreStep]:
        """The planned steps, each assumed to succeed."""
        return plan_steps(self.facts, next_step)


@dataclass(kw_only=True)
class Restore(StreamPlaybook[RestoreFacts, RestoreStep]):
    """Take a stream back to a point, or finish the restore that another run has begun."""

    name: ClassVar = "restore"
    target: RestoreTarget
    why: str = ""
    keep_output: bool = False
    patience_seconds: float = LEAVE_WITHIN_SECONDS
    _restore: RestoreRow | None = field(default=None, init=False)
    _fetch: Fetch | None = field(default=None, init=False)

    def begin(self) -> None:
        restore = self._find_unfinished()
        if restore is None:
            point = self._preflight()
            restore = self.project.store.restores.request(
                self.stream,
                epoch=point.epoch,
                snapshot=point.snapshot_id,
                why=self.why,
                run=self.run,
            )
        self._resume(restore)

    def preview(self) -> RestoreFacts:
        return self.look_ahead().facts

    def look_ahead(self) -> RestorePreview:
        """Plan the restore from one observation; raises if it would be refused."""
        unfinished = self._find_unfinished()
        if unfinished is not None:
            self._resume(unfinished)
            return RestorePreview(facts=self.observe(), point=None)
        point, store = self._preflight(), self.project.store
        newest, wanted = store.restores.newest(self.stream), self._is_wanted()
        fetch = find_fetch(self.project, self.stream, self.target, point.epoch)
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
        row = self._current()
        wanted = self._is_wanted()
        settled = row.finished and wanted and observe_stream(self.project, self.stream).is_settled
        return RestoreFacts(
            history=row.history,
            epoch=row.epoch,
            was_running=row.was_running,
            wanted=wanted,
            lives=bool(self.project.store.replicas.of(self.stream)),
            fetch=None if row.finished else self._missing_snapshot(),
            begun=row.begun,
            marked=row.begun and (row.finished or self._is_marked()),
            rolled=row.begun and (row.finished or self._tables.is_rolled(row.history)),
            finished=row.finished,
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
                return HistoryBegun(self.project.store.restores.begin(self._requested))
            case MarkSnapshots():
                vault = self.project.vault(self.stream)
                vault.mark(step.history, after_epoch=step.epoch)
                return SnapshotsMarked(len(vault.listing().superseded))
            case RollOutput():
                return self._roll_output(step.history, step.epoch)
            case EndRestore():
                # Before the stream should run again: a launch then uses the corrected declaration.
                apply_declaration(self.project, self.stream)
                self._close_undone_incidents()
                self.project.store.restores.finish(self._requested)
                return StepResult()
            case StartStream():
                return self._start()

    def _roll_output(self, history: int, epoch: int) -> StepResult:
        undone = self.project.store.restores.set_aside(self.stream, history)
        point = RollbackPoint(stream=self.stream, history=history, epoch=epoch, undone=undone)
        return self._tables.roll(point)

    def _close_undone_incidents(self) -> None:
        """Close those about a lost commit or table whose epoch is computed again from here on."""
        incidents, epoch = self.project.store.incidents, self._requested.epoch
        for incident in incidents.of(self.stream):
            if incident.kind in CLOSED_BY_RESTORE and incident.detail["epoch"] > epoch:
                incidents.close(incident.id, f"the stream was restored to epoch {epoch}")

    @property
    def _requested(self) -> RestoreRow:
        """The restore that `begin` recorded or found."""
        assert self._restore is not None, "a playbook is begun first"  # noqa: S101
        return self._restore

    def _find_unfinished(self) -> RestoreRow | None:
        self.project.ensure_object_store()
        require_same_past(self.project, self.stream, done="restored")
        return find_unfinished(self.project, self.stream, self.target)

    def _preflight(self) -> RestorePoint:
        return preflight(self.project, self.stream, self.target, keep_output=self.keep_output)

    def _resume(self, restore: RestoreRow) -> None:
        self._restore = restore
        self._fetch = find_fetch(self.project, self.stream, self.target, restore.epoch)

    def _is_wanted(self) -> bool:
        row = self.project.store.streams.get(self.stream)
        return row is not None and row.is_desired

    def _current(self) -> RestoreRow:
        """The current row of the restore; raises if another restore has replaced it."""
        rows, requested = self.project.store.restores.of(self.stream), self._requested
        for row in rows:
            if row.has_same_target(requested):
                return row
        if not rows or rows[0].history < requested.history:
            raise PermanentError(
                f"the restore of {self.stream} to epoch {requested.epoch} was dropped: the stream was started first",
                hint="restore again if it is still needed; nothing was undone",
            )
        epoch = rows[0].epoch
        raise PermanentError(
            f"the restore of {self.stream} to epoch {requested.epoch} was replaced by another one, to "
            f"epoch {epoch}",
            hint=f"run `holdfast restore {self.stream} --epoch {epoch}` to finish that, then restore again",
        )

    def _stop(self) -> InnerSteps:
        if not self.project.store.restores.stop_for(self._requested):
            return InnerSteps([])
        stop = StopReplicas(
            self.project,
            self.stream,
            self.run,
            patience_seconds=self.patience_seconds,
            keep_alive=self.keep_alive,
        )
        return InnerSteps(list(stop.steps()))

    def _start(self) -> InnerSteps:
        self.project.ensure_object_store()
        apply_declaration(self.project, self.stream)
        recover = Recover(self.project, self.stream, self.run, keep_alive=self.keep_alive)
        return InnerSteps(list(recover.steps()))

    def _copy_snapshot(self, snapshot: str) -> SnapshotCopied:
        assert self._fetch is not None, "the step was decided from it"  # noqa: S101
        source = self._fetch.source
        copied = catalogue.adopt(self.project, self.stream, source.manifest(snapshot), source)
        return SnapshotCopied(**copied)

    @property
    def _tables(self) -> Tables:
        return tables_of(self.project, self.stream)

    def _missing_snapshot(self) -> str | None:
        if self._fetch is None or has_whole_snapshot(
            self.project, self.stream, self._fetch.snapshot
        ):
            return None
        return self._fetch.snapshot

    def _is_marked(self) -> bool:
        return self._requested.history in self.project.vault(self.stream).listing().histories


def find_unfinished(project: Project, stream: str, target: RestoreTarget) -> RestoreRow | None:
    """Find the restore to this target that is half done, or done with nothing committed since.

    A target that names no point means the restore that is half done, or one that has only stopped the stream; one to
    another point than a half-done restore is an error. A restore that is done is not returned if a snapshot is still to
    be copied from another place.
    """
    newest = project.store.restores.newest(stream)
    if newest is None:
        return None
    if not newest.closed:
        is_meant = not target.names_point and _has_stopped(project, newest)
        return newest if is_meant else None
    if newest.half_done:
        return _require_same_point(project, newest, target)
    epoch, last = epoch_of(project, stream, target), project.store.ledger.last(stream)
    if last is None or not last.epoch == newest.epoch == epoch:
        return None
    return newest if find_fetch(project, stream, target, epoch) is None else None


def _has_stopped(project: Project, asked: RestoreRow) -> bool:
    """Whether the stream is stopped since a restore was asked for; one that was started again has a new replica."""
    row = project.store.streams.get(asked.stream)
    rows = project.store.replicas.of(asked.stream, live=False)
    is_started = any(replica.registered_at > asked.asked_at for replica in rows)
    return row is not None and not row.is_desired and not is_started


def _require_same_point(
    project: Project, half_done: RestoreRow, target: RestoreTarget
) -> RestoreRow:
    """The restore that is half done; raises if the target names another point."""
    stream, epoch = half_done.stream, half_done.epoch
    try:
        same = not target.names_point or epoch_of(project, stream, target) == epoch
    except PermanentError:
        same = False
    if same:
        return half_done
    raise PermanentError(
        f"{stream} cannot be restored to another point: its restore to epoch {epoch} is half done",
        hint=f"run `holdfast restore {stream} --epoch {epoch}` to finish it, then restore again",
    )


def preflight(
    project: Project, stream: str, target: RestoreTarget, *, keep_output: bool
) -> RestorePoint:
    """Find the point of the target; raises if the restore is impossible, before anything is changed."""
    point = find_point(project, stream, target)
    require_source(project, stream, point.first_computed, point.last_decided)
    output = tables_of(project, stream).output
    if output is not None and keep_output:
        raise PermanentError(
            f"the output of {stream} cannot be kept: it is a table, and must agree with the state",
            hint="omit --keep-output: it is for sinks of your own",
        )
    if output is not None:
        output.require_possible(point.epoch, point.later_entries(project))
    elif not keep_output:
        raise PermanentError(
            f"the output of {stream} cannot be rolled back: it goes to a function of your own",
            hint="use --keep-output: the output stays, and the function is called again for each epoch after "
            f"{point.epoch}. Remove yourself what must not be there twice",
        )
    return point
