"""The drill playbook: injects a fault into a live stream and measures its recovery."""

import signal
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import ClassVar

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.playbooks.drill import (
    CUT_OFF_SECONDS,
    PLAYBOOK,
    AwaitBack,
    Decline,
    DrillFacts,
    DrillStep,
    Fault,
    InjectedFault,
    InjectFault,
    Predicted,
    Recover as RecoverStream,
    Release,
    Report,
    next_step,
)
from holdfast.observation.reports.drills import drill_reports
from holdfast.observation.review import Reviewer
from holdfast.observation.status import StreamStatus
from holdfast.orchestration.incidents import open_recovery
from holdfast.orchestration.playbooks.base import InnerSteps, StepResult, StreamPlaybook
from holdfast.orchestration.playbooks.drill.journal import (
    OpenDrill,
    find_disturbances,
    open_drill,
)
from holdfast.orchestration.playbooks.drill.outcome import DrillOutcome, close_incident, outcome_of
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.waiting import StreamWaiter, await_exit
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.process import ProcessHandle, find_process
from holdfast.streaming.replica.fault_injection import block_object_store

PAUSE_TRIES = 20
PAUSE_SETTLES_SECONDS = 0.05  # from a signal until a process has stopped, or ended its write
HEALED_SECONDS = 120.0  # from the end of a cut until a snapshot is in the object store again


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInjected(StepResult):
    """The last epoch before the fault, and the end of a cut."""

    epoch: int
    blocked_until: float | None = None


@dataclass(frozen=True, slots=True)
class Awaited(StepResult):
    """Whether the stream came back by itself."""

    by_itself: bool


@dataclass(kw_only=True)
class Drill(StreamPlaybook[DrillFacts, DrillStep]):
    """One drill of one stream; an unfinished drill of another run is finished first."""

    name: ClassVar = PLAYBOOK
    fault: Fault = Fault.KILL
    cut_off_seconds: float = CUT_OFF_SECONDS
    beyond_budget: bool = False

    def begin(self) -> None:
        self.project.config.stream(self.stream)

    def decide(self, facts: DrillFacts) -> DrillStep | None:
        return next_step(facts)

    def observe(self) -> DrillFacts:
        """Observe the stream and the progress of its drill."""
        status = self._waiter.observe()
        drill = open_drill(self.project, self.stream, at=status.at)
        incident, primary = open_recovery(self.project, self.stream), status.primary
        elsewhere = primary is not None and find_process(primary) is None
        return DrillFacts(
            fault=self.fault,
            wanted=status.wanted,
            verdict=status.verdict,
            primary=None if primary is None else primary.id,
            host=primary.host if primary is not None and elsewhere else None,
            tier=status.tier,
            covered=status.covered,
            is_settled=status.is_settled,
            incident=None if incident is None else incident.id,
            overdrawn=None if self.beyond_budget else self._overdrawn(status.at),
            predicted=self._predict(status) if drill is None else Predicted(),
            injected=None if drill is None else self._observe_fault(drill),
            back=drill is not None and self._is_back(status, drill),
            reported=self._is_reported(),
        )

    def act(self, step: DrillStep) -> StepResult:
        match step:
            case Decline():
                raise PermanentError(
                    f"{self.stream} cannot be drilled: {step.reason}",
                    hint="drill a healthy stream: `holdfast status` shows its health, and `drills` in its "
                    "declaration limits how often it may be disturbed",
                )
            case InjectFault():
                return self._inject(step)
            case AwaitBack():
                return self._await_back()
            case RecoverStream():
                recover = Recover(self.project, self.stream, self.run, keep_alive=self.keep_alive)
                return InnerSteps(list(recover.steps()))
            case Release():
                return self._release(step)
            case Report():
                return self._report()

    def _inject(self, step: InjectFault) -> FaultInjected:
        row, last = self._row(step.primary), self.project.store.ledger.last(self.stream)
        process = find_process(row)
        epoch = -1 if last is None else last.epoch
        match step.fault:
            case Fault.CUT_OFF:
                until = block_object_store(Path(row.folder), seconds=self.cut_off_seconds)
                return FaultInjected(epoch=epoch, blocked_until=until)
            case Fault.KILL if process is not None:
                process.kill()
            case Fault.PAUSE if process is not None:
                self._pause(process)
        return FaultInjected(epoch=epoch)

    def _pause(self, process: ProcessHandle) -> None:
        """Stop the processes of a replica, but not in a write: on SQLite that would stop all streams."""
        for _ in range(PAUSE_TRIES):
            stopped = {member.pid for member in process.send(signal.SIGSTOP)}
            self.project.clock.sleep(PAUSE_SETTLES_SECONDS)
            if not stopped & self.project.store.lock_holders():
                return
            process.send(signal.SIGCONT)
            self.project.clock.sleep(PAUSE_SETTLES_SECONDS)
        raise TransientError(
            f"{self.stream} was not paused: its primary was writing to the control store in each of "
            f"{PAUSE_TRIES} attempts",
            hint="run the drill again",
        )

    def _await_back(self) -> Awaited:
        drill = self._drill()
        if drill.fault is Fault.CUT_OFF:
            return self._await_healed(drill)
        back = self._waiter.wait_until(
            lambda status: not status.wanted or self._is_back(status, drill),
            patience_seconds=self.project.timings(self.stream).relaunch_within_seconds,
            progress=lambda status: status.primary and (status.primary.id, status.primary.epoch),
        )
        return Awaited(by_itself=back is not None)

    def _await_healed(self, drill: OpenDrill) -> Awaited:
        now = self._waiter.observe().at
        patience = max(drill.blocked_until - now, 0.0) + HEALED_SECONDS
        if self._waiter.wait_until(
            lambda status: not status.wanted or self._is_back(status, drill),
            patience_seconds=patience,
        ):
            return Awaited(by_itself=True)
        raise TransientError(
            f"no snapshot of {self.stream} was shipped within {HEALED_SECONDS:.0f} s after the cut",
            hint=f"check the object store and `holdfast logs {self.stream}`, then run the drill again: it "
            "continues from here",
        )

    def _release(self, step: Release) -> StepResult:
        process = find_process(self._row(step.primary))
        if process is not None:
            process.send(signal.SIGCONT)
        return await_exit(self.project, step.primary, keep_alive=self.keep_alive)

    def _report(self) -> DrillOutcome:
        drill = self._drill()
        outcome = outcome_of(self._waiter, drill)
        close_incident(self.project, self.stream, outcome, since_at=drill.at)
        return outcome

    def _is_back(self, status: StreamStatus, drill: OpenDrill) -> bool:
        """Whether another primary has caught up, or after a cut whether a snapshot was shipped again."""
        if status.primary is None or not status.verdict.health.is_running:
            return False
        if drill.fault is not Fault.CUT_OFF:
            return status.primary.id != drill.primary
        newest = self.project.store.snapshots.newest(self.stream)
        return newest is not None and (newest.created_at or 0.0) > drill.blocked_until

    def _observe_fault(self, drill: OpenDrill) -> InjectedFault:
        row = self._row(drill.primary)
        process = find_process(row)
        alive = process is not None and process.is_alive()
        return InjectedFault(
            primary=drill.primary,
            fault=drill.fault,
            landed=drill.was_injected or row.state.ended,
            waited=drill.was_awaited,
            lingers=drill.fault is Fault.PAUSE and alive,
        )

    def _predict(self, status: StreamStatus) -> Predicted:
        decision = Reviewer().decide_now(self.project, self.stream)
        tier = next(row for row in decision.tiers if row.tier is status.covered)
        steps = {step.value: took for step, took in tier.steps.items() if isfinite(took)}
        return Predicted(seconds=tier.seconds if isfinite(tier.seconds) else None, steps=steps)

    def _overdrawn(self, at: float) -> str | None:
        budget = self.project.config.stream(self.stream).drills.budget()
        since = at - budget.period_seconds
        ages = [
            at - disturbance
            for disturbance in find_disturbances(self.project, self.stream, since_at=since)
        ]
        return budget.objection(ages)

    def _is_reported(self) -> bool:
        return any(line.run == self.run for line in drill_reports(self.project, self.stream))

    def _drill(self) -> OpenDrill:
        drill = open_drill(self.project, self.stream, at=self.project.store.now())
        if drill is None:
            raise TransientError(
                f"another run has finished the drill of {self.stream}",
                hint="run it again for a new drill",
            )
        return drill

    def _row(self, replica: str) -> ReplicaRow:
        row = self.project.store.replicas.get(replica)
        assert row is not None, "the target of a fault is known"  # noqa: S101
        return row

    @property
    def _waiter(self) -> StreamWaiter:
        return StreamWaiter(
            project=self.project, stream=self.stream, began_at=0.0, keep_alive=self.keep_alive
        )
