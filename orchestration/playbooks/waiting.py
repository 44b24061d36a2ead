"""Waiting for a status of a stream, and for a replica to exit."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.steps import RecoverStep
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.orchestration.playbooks.base import StepResult, do_nothing
from holdfast.resources.clock import Clock, wait_until
from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState, Slot
from holdfast.resources.process import ProcessHandle, find_process
from holdfast.resources.project import Project

POLL_SECONDS = 0.25
_UNASKED = frozenset({ReplicaState.FAILED, ReplicaState.DEAD})
_LOST = _UNASKED | {ReplicaState.FENCED}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWaiter:
    """Observes one stream for one run; `keep_alive` renews the claim of the run.

    Failures of secondaries from before the run do not count: the run exists to try again.
    """

    project: Project
    stream: str
    began_at: float
    keep_alive: Callable[[], None] = do_nothing

    def observe(self) -> StreamStatus:
        """Renew the claim and observe the stream."""
        self.keep_alive()
        return observe_stream(self.project, self.stream, secondaries_since=self.began_at)

    def is_still_next(self, step: RecoverStep, *, as_caught_up: bool = False) -> bool:
        """Whether a step is still the next one: another tier or a stop may have been requested.

        With `as_caught_up` the target of a migration counts as caught up, whatever its lag.
        """
        facts = self.observe().recover_facts()
        if as_caught_up and facts.migration is not None:
            facts = replace(facts, migration=replace(facts.migration, caught_up=True))
        return next_step(facts) == step

    def wait_until(
        self,
        is_over: Callable[[StreamStatus], bool],
        *,
        patience_seconds: float,
        progress: Callable[[StreamStatus], object] = lambda _: None,
    ) -> StreamStatus | None:
        """Poll the status of the stream until the condition holds; return it, or `None` if it is not in time."""
        status: list[StreamStatus] = []

        def is_over_now() -> bool:
            status[:] = [self.observe()]
            return is_over(status[0])

        over = wait_until(
            is_over_now,
            clock=self.project.clock,
            patience_seconds=patience_seconds,
            poll_seconds=POLL_SECONDS,
            progress=lambda: progress(status[0]),
        )
        return status[0] if over else None

    def why_lost(self, replica: str, status: StreamStatus) -> str:
        """Why a replica was ended, or counts as failed in `status`; empty for one that lives or was stopped."""
        row = self.project.store.replicas.get(replica)
        ended = row is not None and row.state in _LOST
        return row.reason if row is not None and ended else status.failure_of(replica)

    @property
    def migration_seconds_left(self) -> float:
        """The time until the open migration is rolled back, and some slack to observe that."""
        migration = self.project.store.migrations.open(self.stream)
        if migration is None:
            return 0.0
        slack_seconds = self.project.timings(self.stream).slack_seconds
        return max(migration.deadline_at - self.observe().at, 0.0) + slack_seconds

    @property
    def patience_seconds(self) -> float:
        """How long a step waits for a replica that makes no progress."""
        return patience_seconds(self.project, self.stream)


def patience_seconds(project: Project, stream: str) -> float:
    """How long a step waits for a replica of the stream that makes no progress."""
    return project.timings(stream).progress_within_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExit(StepResult):
    """How a replica ended; `stayed_as` is the new slot of one that may stay."""

    ended: ReplicaState | None = None
    reason: str | None = None
    epoch: int | None = None
    stayed_as: Slot | None = None

    @property
    def failure(self) -> str:
        """Why the replica did not exit by itself as asked."""
        return (self.reason or "") if self.ended in _UNASKED else ""


def await_exit(
    project: Project,
    replica: str,
    *,
    patience_seconds: float | None = None,
    slot: Slot | None = None,
    keep_alive: Callable[[], None] = do_nothing,
) -> ReplicaExit:
    """Wait for a replica to exit; one that does not in time is killed.

    Without `patience_seconds` it may take `leave_within_seconds`. With `slot`, a replica that has another slot by
    then may stay: its end is recorded before it is killed.
    """
    replicas = project.store.replicas
    row = replicas.get(replica)
    if row is None:
        return ReplicaExit()
    timings = project.timings(row.stream)
    if patience_seconds is None:
        patience_seconds = timings.leave_within_seconds
    left = wait_until(
        lambda: _has_left(project, replica, slot),
        clock=project.clock,
        patience_seconds=patience_seconds,
        poll_seconds=POLL_SECONDS,
        keep_alive=keep_alive,
    )
    if not left:
        reason = f"did not exit within {patience_seconds:.0f} s"
        replicas.end(replica, ReplicaState.DEAD, reason, by=EndedBy.PLAYBOOK, slot=slot)
    row = replicas.get(replica)
    if row is None:
        return ReplicaExit()
    if not row.state.ended:
        return ReplicaExit(stayed_as=row.slot)
    process = find_process(row)
    if process is not None:
        if left:
            _await_process(process, project.clock, timings.exit_within_seconds, keep_alive)
        else:
            process.kill()
    return ReplicaExit(ended=row.state, reason=row.reason, epoch=row.epoch)


def _has_left(project: Project, replica: str, slot: Slot | None) -> bool:
    """Whether a replica has ended or has another slot; one whose process is gone is recorded as dead."""
    replicas = project.store.replicas
    row = replicas.get(replica)
    if _is_gone(row, slot):
        return True
    process = None if row is None else find_process(row)
    if process is None or process.is_alive():
        return False
    replicas.end(replica, ReplicaState.DEAD, "its process is gone", by=EndedBy.PLAYBOOK, slot=slot)
    return _is_gone(replicas.get(replica), slot)


def _is_gone(row: ReplicaRow | None, slot: Slot | None) -> bool:
    return row is None or row.state.ended or (slot is not None and row.slot is not slot)


def _await_process(
    process: ProcessHandle, clock: Clock, patience_seconds: float, keep_alive: Callable[[], None]
) -> None:
    """Wait for the process of a replica that has ended; kill one that does not exit."""
    gone = process.terminate(wait_seconds=0.0, kill=False) or wait_until(
        lambda: not process.is_alive(),
        clock=clock,
        patience_seconds=patience_seconds,
        poll_seconds=POLL_SECONDS,
        keep_alive=keep_alive,
    )
    if not gone:
        process.kill()
