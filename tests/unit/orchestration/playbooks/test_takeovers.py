"""A secondary that becomes the primary, or should, while a playbook works on the stream."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitSecondaryExit,
    AwaitTakeover,
    AwaitTarget,
    EndSecondary,
    RecoverStep,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import PRIMARY, SECONDARY, Switch, Tier
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.orchestration.playbooks import migrate_steps, recover_secondary
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot
from holdfast.resources.project import Project
from tests.builders.playbooks import (
    a_running_project,
    a_waiter,
    recovery_steps,
    replica_of,
    run_recovery,
    take_over,
)
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_secondary, a_wanted_stream
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import simulated_projects


def test_a_dead_primary_is_followed_by_its_secondary_and_redundancy_is_restored(
    tmp_path: Path,
) -> None:
    with (
        simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT).open() as project,
        simulated_drivers(project) as drivers,
    ):
        a_wanted_stream(project)
        a_primary(project, "p", alive=False)
        a_secondary(project, "s")
        drivers.takes_over = False  # until a playbook waits for it
        steps = recovery_steps(project, drivers.act)
        assert next(steps).name == "Fence"
        drivers.takes_over = True
        names = [step.name for step in steps]
        assert names == ["LaunchSecondary", *["TurnSwitch"] * 3]
        status = observe_stream(project, CLICKS)
        assert status.primary is not None
        assert status.primary.id == "s"
        assert status.covered is Tier.ACTIVE_STANDBY
        assert [row.slot for row in project.store.replicas.of(CLICKS)].count(Slot.PRIMARY) == 1


def test_a_secondary_that_does_not_take_over_makes_room_for_a_new_primary(tmp_path: Path) -> None:
    with (
        simulated_projects(tmp_path, tier="deployed", supervision=PATIENT).open() as project,
        simulated_drivers(project) as drivers,
    ):
        a_wanted_stream(project)
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED])
        project.timing_changes["takeover_within_seconds"] = 0.1
        drivers.takes_over = False
        names = run_recovery(drivers)
        assert names[:2] == ["AwaitTakeover", "Launch"]
        assert names[-1] == "TurnSwitch"
        assert replica_of(project, "s").state is ReplicaState.FAILED


def test_a_secondary_that_has_just_become_primary_is_not_turned_off(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="deployed") as project:
        a_secondary(project, "s")
        project.store.replicas.end("p", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        take_over(project, "s")
        watch = a_waiter(project)
        recover_secondary.turn_switch(watch, TurnSwitch("s", Switch.PROCESS, on=False))
        recover_secondary.stop(watch, AwaitSecondaryExit("s"))
        recover_secondary.await_takeover(watch, AwaitTakeover("s"))
        row = replica_of(project, "s")
        assert (row.desired, row.slot) == (PRIMARY, Slot.PRIMARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateWaiter(StreamWaiter):
    """Observes what was true a moment ago."""

    observed: StreamStatus

    def observe(self) -> StreamStatus:
        return self.observed

    def is_still_next(self, step: RecoverStep, *, as_caught_up: bool = False) -> bool:
        return True


def a_late_waiter(project: Project) -> LateWaiter:
    observed = observe_stream(project, CLICKS)
    return LateWaiter(project=project, stream=CLICKS, began_at=0.0, observed=observed)


def test_a_secondary_that_takes_over_between_look_and_act_is_left_alone(tmp_path: Path) -> None:
    """Each step is about to write when the secondary becomes the primary."""
    with a_running_project(tmp_path, tier="deployed") as project:
        a_secondary(project, "s")
        beside_primary = a_late_waiter(project)
        project.store.replicas.end("p", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        alone = a_late_waiter(project)
        take_over(project, "s")
        project.timing_changes["progress_within_seconds"] = 0.1
        recover_secondary.turn_switch(beside_primary, TurnSwitch("s", Switch.PROCESS, on=False))
        recover_secondary.stop(beside_primary, AwaitSecondaryExit("s"))
        recover_secondary.end(
            beside_primary, EndSecondary("s", "thought dead"), beside_primary.observed
        )
        project.timing_changes["takeover_within_seconds"] = 0.0
        recover_secondary.await_takeover(alone, AwaitTakeover("s"))
        row = replica_of(project, "s")
        assert (row.desired, row.slot, row.ended_at) == (PRIMARY, Slot.PRIMARY, None)


def test_a_switch_stops_waiting_when_the_primary_needs_it(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="passive_standby_cold") as project:
        a_secondary(project, "s", observed=SECONDARY[Tier.DEPLOYED])

        def die() -> None:
            if replica_of(project, "s").desired.sync:
                project.store.replicas.end("p", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)

        watch = a_waiter(project, die)
        recover_secondary.turn_switch(watch, TurnSwitch("s", Switch.SYNC, on=True))
        assert observe_stream(project, CLICKS).primary is None


def test_a_wait_for_a_target_that_was_lost_has_failed_with_the_reason(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="deployed") as project:
        a_secondary(project, "s")
        project.store.replicas.end("s", ReplicaState.FAILED, "no room", by=EndedBy.REPLICA)
        awaited = migrate_steps.await_target(a_waiter(project), AwaitTarget("s"))
        assert (awaited.failure, awaited.as_dict()) == ("no room", {"failed": "no room"})
