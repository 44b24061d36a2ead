"""The steps of the recover playbook that concern the secondary.

A secondary may become the primary at any moment, by itself. So each write names the slot, and does nothing
to a replica that is the primary by then. And another tier may be requested at any moment: a step that asks
something of a secondary checks first whether it is still the next step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitSecondaryExit,
    AwaitTakeover,
    EndSecondary,
    GiveUpSecondary,
    HandOver,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import OFF, Switch, SwitchChange
from holdfast.observation.status import StreamStatus
from holdfast.orchestration.playbooks.base import StepResult, StepSkipped
from holdfast.orchestration.playbooks.launch import launch_secondary
from holdfast.orchestration.playbooks.waiting import StreamWaiter, await_exit
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.replicas import Sign

HAS_MOVED = "the replica is the primary now, or gone"
SWITCH_SAMPLES = frozenset(
    {
        SampleName.DETECT_SECONDS,
        SampleName.DEPLOY_SECONDS,
        SampleName.REHEARSE_SECONDS,
        SampleName.READ_SNAPSHOT_SECONDS,
        SampleName.WIRE_RECEIVE_SECONDS,
        SampleName.WIRE_SEND_SECONDS,
        SampleName.REPLAY_SECONDS,
        SampleName.FIRST_COMMIT_SECONDS,
        SampleName.COMMIT_PAUSE_SECONDS,
        SampleName.SYNC_SECONDS,
        SampleName.SYNC_BYTES,
        SampleName.SYNC_REQUESTS,
    }
)
"""What a replica may have measured while a switch was turned."""
LIVES = f"{HAS_MOVED}, or has sent a sign of life"


@dataclass(frozen=True, slots=True)
class ReplicaLaunched(StepResult):
    """The launched replica; `None` if its slot was taken."""

    replica: str | None


@dataclass(frozen=True, slots=True)
class Measured(StepResult):
    """What the replica measured during the step, by the names of its samples, or why it was lost meanwhile."""

    samples: Mapping[str, float]
    failed: str = ""

    @property
    def failure(self) -> str:
        return self.failed

    def as_dict(self) -> dict[str, Any]:
        return {**self.samples, "failed": self.failed} if self.failed else dict(self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverAwaited(StepResult):
    """The primary after the wait, or why the secondary was ended for a new one."""

    primary: str | None = None
    failed: str | None = None

    @property
    def failure(self) -> str:
        return self.failed or ""


@dataclass(frozen=True, slots=True)
class SecondaryEnded(StepResult):
    """Why the secondary was ended."""

    reason: str


def launch(waiter: StreamWaiter) -> ReplicaLaunched:
    """Start a secondary, unless there is one."""
    waiter.project.ensure_object_store()
    row = launch_secondary(waiter.project, waiter.stream)
    return ReplicaLaunched(None if row is None else row.id)


def end(
    waiter: StreamWaiter, step: EndSecondary, observed: StreamStatus
) -> SecondaryEnded | StepSkipped:
    """Record the end of a failed secondary, if it is as it was observed; it exits when it reads that."""
    row, verdict = observed.secondary, observed.secondary_verdict
    if row is None or verdict is None or row.id != step.secondary:
        return StepSkipped()
    sign = Sign.EPOCH if verdict.health is Health.STUCK else Sign.LIFE
    ended = waiter.project.store.replicas.end_observed(
        row, ReplicaState.FENCED, step.reason, by=EndedBy.PLAYBOOK, unless=sign
    )
    return SecondaryEnded(step.reason) if ended else StepSkipped(LIVES)


def turn_switch(waiter: StreamWaiter, step: TurnSwitch) -> StepResult:
    """Request one change of a switch and wait until it is observed; raises if it is not in time."""
    store, status = waiter.project.store, waiter.observe()
    view = status.secondary_view()
    if view is None or next_step(status.recover_facts()) != step:
        return StepSkipped()
    desired = view.desire_for(
        SwitchChange(step.switch, step.on), status.recover_facts().tier_switches
    )
    generation = store.replicas.desire(view.id, desired, slot=Slot.SECONDARY)
    if generation is None:
        return StepSkipped(HAS_MOVED)
    patience = max(waiter.patience_seconds, waiter.migration_seconds_left)
    turned = waiter.wait_until(
        lambda now: _has_turned(now, step, status, generation), patience_seconds=patience
    )
    if turned is None:
        way = "on" if step.on else "off"
        raise TransientError(
            f"{step.switch} of {step.secondary} is not {way} after {patience:.0f} s",
            hint=f"run `holdfast logs {waiter.stream} --replica {step.secondary}` for the cause; the replica "
            f"keeps trying, and covers {waiter.observe().covered} meanwhile",
        )
    return Measured(
        _measure(store, waiter.stream, step.secondary, since=status.at),
        failed=waiter.why_lost(step.secondary, turned),
    )


def stop(waiter: StreamWaiter, step: AwaitSecondaryExit) -> StepResult:
    """Request the exit of a secondary and wait for it."""
    if not waiter.is_still_next(step):
        return StepSkipped()
    if waiter.project.store.replicas.desire(step.secondary, OFF, slot=Slot.SECONDARY) is None:
        return StepSkipped(HAS_MOVED)
    return await_exit(
        waiter.project, step.secondary, slot=Slot.SECONDARY, keep_alive=waiter.keep_alive
    )


def give_up(waiter: StreamWaiter, step: GiveUpSecondary) -> StepResult:
    """Fail the run: the recovery sensor tries again later."""
    raise PermanentError(
        f"{waiter.stream} runs without its secondary: {step.reason}",
        hint=f"fix the cause, or run `holdfast switch {waiter.stream} passive_replication`; the launch is "
        "tried again at growing intervals",
    )


def await_takeover(waiter: StreamWaiter, step: AwaitTakeover) -> TakeoverAwaited | StepSkipped:
    """Wait for the secondary to take over; end one that does not in time, so that a new primary can start."""
    timings = waiter.project.timings(waiter.stream)
    view = waiter.observe().secondary_view()
    starting = view is not None and view.health is Health.STARTING
    patience = timings.takeover_within_seconds
    patience += timings.start_within_seconds if starting else 0.0
    status = waiter.wait_until(
        lambda status: _is_decided(status, step.secondary), patience_seconds=patience
    )
    if status is None:
        status = waiter.observe()
    if status.secondary is None or _is_decided(status, step.secondary):
        return TakeoverAwaited(
            primary=None if status.primary is None else status.primary.id,
            failed=waiter.why_lost(step.secondary, status) or None,
        )
    reason = f"did not take over within {patience:.0f} s"
    ended = waiter.project.store.replicas.end_observed(
        status.secondary,
        ReplicaState.FAILED,
        reason,
        by=EndedBy.PLAYBOOK,
        unless=Sign.LIFE,
    )
    return TakeoverAwaited(failed=reason) if ended else StepSkipped(LIVES)


def _is_decided(status: StreamStatus, secondary: str) -> bool:
    """Whether there is a primary again, or no secondary left that could take over."""
    view = status.secondary_view()
    stands_by = view is not None and view.id == secondary and not view.health.failed
    return status.verdict.health is not Health.MISSING or not stands_by


def _has_turned(now: StreamStatus, step: TurnSwitch, before: StreamStatus, generation: int) -> bool:
    """Whether the switch has changed, or another step is due first.

    Reports of the secondary from before it read the request (this generation) do not count.
    """
    row, view = now.secondary, now.secondary_view()
    if row is None or view is None or view.id != step.secondary or view.health.failed:
        return True
    moved_on = now.tier is not before.tier or not now.verdict.health.is_running
    faulty = now.migration is not None and now.migration.fault is not None
    handed_over = isinstance(next_step(now.recover_facts()), HandOver)
    resting = view.paused and step.switch in (Switch.PROCESS, Switch.SEND)
    followed = (step.switch in view.observed.on()) is step.on
    superseded = moved_on or faulty or handed_over or resting
    return superseded or (followed and row.observed_generation >= generation)


def _measure(store: ControlStore, stream: str, replica: str, *, since: float) -> dict[str, float]:
    return {
        name: sample.value
        for name, sample in store.samples.latest(stream, replica=replica).items()
        if sample.at >= since and name in SWITCH_SAMPLES
    }
