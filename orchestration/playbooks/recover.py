"""The recover playbook: bring a stream back, and the tier that people want of it.

Starting a stream is the same thing, and so is changing its tier.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ft_policies.errors import PermanentError, TransientError
from ft_policies.foresight import foreseen
from ft_policies.health import Health
from ft_policies.migration import AwaitTarget, FinishMigration, HandOver, RollBack, StopPrimary
from ft_policies.recovery import (
    AwaitEnd,
    AwaitLevel,
    AwaitSecondaryEnd,
    AwaitTakeover,
    EndSecondary,
    Fence,
    GiveUp,
    GiveUpSecondary,
    Launch,
    LaunchSecondary,
    Step,
    TurnSwitch,
    next_step,
)
from ft_policies.tiers import OFF, Tier
from orchestration.playbooks import migration_steps, secondaries
from orchestration.playbooks.declaring import declare_now
from orchestration.playbooks.performing import Journaled, Performed, perform
from orchestration.playbooks.reaching import note_reached
from orchestration.playbooks.watching import NOT_DUE, Watch
from resources.control.records import DesiredState, ReplicaState
from resources.control.streams import tier_wanted
from resources.project import Project
from streaming.launching import launch_primary, require_whole
from streaming.observing import StreamSeen, observe

STEP_SAMPLES = (
    "t_deploy_seconds",
    "t_read_snapshot_seconds",
    "t_wire_receive_seconds",
    "t_wire_send_seconds",
    "t_replay_seconds",
    "recovery_seconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One recovery of one stream."""

    world: Project
    stream: str
    run: str
    incident: str | None = None
    beat: Callable[[], None] = lambda: None
    playbook: str = "recover"

    def steps(self) -> Iterator[Performed[Step]]:
        """Yield each step once it has been carried out, until the stream and its tier are well."""
        store = self.world.store
        watch = Watch(world=self.world, stream=self.stream, began_at=store.now(), beat=self.beat)
        journal = Journaled(
            store=store,
            stream=self.stream,
            playbook=self.playbook,
            run=self.run,
            incident=self.incident,
        )

        def decide() -> Step | None:
            seen = watch.look()
            note_reached(store, seen)
            return next_step(seen.observed())

        return perform(decide, lambda step: self._act(watch, step), journal)

    def _act(self, watch: Watch, step: Step) -> Mapping[str, Any]:
        match step:
            case Fence():
                return self._fence(step)
            case Launch():
                return self._launch()
            case AwaitLevel():
                return self._await_level(watch, step)
            case AwaitEnd():
                return self._await_end(watch, step)
            case GiveUp():
                self.world.store.streams.desire(self.stream, DesiredState.STOPPED)
                raise PermanentError(
                    f"{self.stream} is stopped: {step.reason}",
                    hint=f"mend the cause, then `holdfast start {self.stream}`",
                )
            case AwaitTarget() | HandOver() | StopPrimary() | FinishMigration() | RollBack():
                return _act_on_migration(watch, step)
            case _:
                return _act_on_secondary(watch, step)

    def _fence(self, step: Fence) -> Mapping[str, Any]:
        store = self.world.store
        lease = store.leases.get(self.stream)
        fenced = (
            lease is not None
            and lease.holder == step.primary
            and store.leases.fence(self.stream, token=step.token)
        )
        store.replicas.end(step.primary, ReplicaState.FENCED, step.reason)
        return {"lease_taken": fenced}

    def _launch(self) -> Mapping[str, Any]:
        self.world.ensure_object_store()
        row = launch_primary(self.world.config, self.world.store, self.stream)
        return {"replica": None if row is None else row.id}

    def _await_end(self, watch: Watch, step: AwaitEnd) -> Mapping[str, Any]:
        if not watch.is_due(step):
            return {"found": NOT_DUE}
        self.world.store.replicas.desire(step.primary, OFF)
        self._await(
            watch,
            lambda seen: seen.verdict.health is not Health.STOPPING,
            what="has not stopped",
            hint="it may be shipping a last snapshot: look again, or at `holdfast logs`",
        )
        return {}

    def _await_level(self, watch: Watch, step: AwaitLevel) -> Mapping[str, Any]:
        waits = (Health.STARTING, Health.REPLAYING, Health.WAITING)
        self._await(
            watch,
            lambda seen: seen.verdict.health not in waits,
            progress=_progressed_at,
            what="is not level, and has finished no epoch,",
            hint="`holdfast logs` tells what keeps it",
        )
        latest = self.world.store.samples.latest(self.stream, replica=step.primary)
        return {name: latest[name].value for name in STEP_SAMPLES if name in latest}

    def _await(
        self,
        watch: Watch,
        over: Callable[[StreamSeen], bool],
        *,
        progress: Callable[[StreamSeen], object] = lambda _: None,
        what: str,
        hint: str,
    ) -> None:
        patience = watch.patience_seconds
        if not watch.until(over, patience_seconds=patience, progress=progress):
            raise TransientError(f"{self.stream} {what} after {patience:.0f} s", hint=hint)


def _progressed_at(seen: StreamSeen) -> float | None:
    """A long replay is well as long as it moves."""
    return None if seen.primary is None else seen.primary.progressed_at


def _act_on_secondary(
    watch: Watch,
    step: AwaitTakeover
    | EndSecondary
    | LaunchSecondary
    | TurnSwitch
    | AwaitSecondaryEnd
    | GiveUpSecondary,
) -> Mapping[str, Any]:
    match step:
        case AwaitTakeover():
            return secondaries.await_takeover(watch, step)
        case EndSecondary():
            return secondaries.end(watch, step)
        case LaunchSecondary():
            return secondaries.launch(watch)
        case TurnSwitch():
            return secondaries.turn(watch, step)
        case AwaitSecondaryEnd():
            return secondaries.see_off(watch, step)
        case GiveUpSecondary():
            raise PermanentError(
                f"{watch.stream} runs without its secondary: {step.reason}",
                hint="it is tried again, ever more rarely; mend the cause, "
                f"or `holdfast switch {watch.stream} passive_replication`",
            )


def _act_on_migration(
    watch: Watch, step: AwaitTarget | HandOver | StopPrimary | FinishMigration | RollBack
) -> Mapping[str, Any]:
    match step:
        case AwaitTarget():
            return migration_steps.await_target(watch, step)
        case HandOver():
            return migration_steps.hand_over(watch, step)
        case StopPrimary():
            return migration_steps.stop_primary(watch, step)
        case FinishMigration():
            return migration_steps.finish(watch, step)
        case RollBack():
            return migration_steps.roll_back(watch, step)


def start(world: Project, stream: str, run: str) -> Iterator[Performed[Step]]:
    """Declare a stream, want it to run, and bring it up."""
    require_whole(world.store, stream)
    world.ensure_object_store()
    declare_now(world, stream)
    world.store.streams.desire(stream, DesiredState.RUNNING)
    return Recovery(world=world, stream=stream, run=run).steps()


def recover_plan(world: Project, stream: str) -> list[Step]:
    """What a recovery would do, as far as one look can tell."""
    return foreseen(observe(world, stream).observed())


def start_plan(world: Project, stream: str) -> list[Step]:
    """What `start` would do, as far as one look can tell; refused where it would be."""
    require_whole(world.store, stream)
    seen = observe(world, stream, as_wanted=True).observed()
    seen = replace(seen, failures_in_a_row=0, secondary_failures_in_a_row=0)
    if not world.store.replicas.of(stream):
        known, declared = world.store.streams.get(stream), world.config.stream(stream).tier
        tier = declared if known is None else Tier(tier_wanted(known, declared))
        rollout = 0 if known is None else known.rollout
        # Declared anew: a migration that was under way is over, and the new primary runs what is.
        seen = replace(seen, tier=tier, migration=None, rollout=rollout, primary_rollout=rollout)
    return foreseen(seen)
