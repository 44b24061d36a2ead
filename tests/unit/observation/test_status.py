"""The status of a stream, from rows that replicas left in a real control store."""

from pathlib import Path

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.steps import GiveUp, GiveUpSecondary, Launch
from holdfast.ft_policies.tiers import OFF, SECONDARY, Switches, Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.launch import launch_primary, launch_secondary
from holdfast.resources.control_store.records import DesiredState, EndedBy, ReplicaState, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from tests.builders.streams import (
    CLICKS,
    PATIENT,
    a_heartbeat,
    a_primary,
    a_secondary,
    a_wanted_stream,
    commit_epochs,
)
from tests.fakes.projects import simulated_projects


def a_failed_primary(project: Project, number: int, *, epoch: int | None) -> None:
    replica = f"{CLICKS}-{number}"
    a_primary(project, replica)
    a_heartbeat(project, replica, epoch=epoch)
    project.store.replicas.end(replica, ReplicaState.FAILED, "division by zero", by=EndedBy.REPLICA)


def test_three_failures_at_the_same_epoch_are_given_up(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        for number in range(3):
            a_failed_primary(project, number, epoch=7)
        status = observe_stream(project, CLICKS)
        assert isinstance(next_step(status.recover_facts()), GiveUp)
        assert (status.wanted, status.verdict.health) == (True, Health.FAILED)
        assert status.verdict.reason == "3 replicas failed in a row: division by zero"


def test_a_change_of_the_tier_between_two_failures_gives_no_other_try(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        for number in range(2):
            a_failed_primary(project, number, epoch=7)
        project.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="r")
        a_failed_primary(project, 2, epoch=7)
        assert observe_stream(project, CLICKS).verdict.health is Health.FAILED


def test_a_start_gives_a_stream_that_was_given_up_another_try(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        for number in range(3):
            a_failed_primary(project, number, epoch=7)
        project.store.streams.desire(CLICKS, DesiredState.RUNNING)
        assert observe_stream(project, CLICKS).verdict.health is Health.MISSING


def test_failures_with_progress_between_them_are_not_the_same_failure(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        for number in range(5):
            a_failed_primary(project, number, epoch=1000 * number)
        assert observe_stream(project, CLICKS).failures_in_a_row == 1
        assert isinstance(next_step(observe_stream(project, CLICKS).recover_facts()), Launch)


def test_failures_without_a_commit_between_them_are_the_same_whatever_was_reported(
    tmp_path: Path,
) -> None:
    """A replica that fails may not have reported the last epoch that it finished."""
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 7)
        for number, epoch in enumerate([6, 5, None]):
            a_failed_primary(project, number, epoch=epoch)
        assert observe_stream(project, CLICKS).verdict.health is Health.FAILED


def test_a_start_by_hand_is_a_new_beginning(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        for number in range(3):
            a_failed_primary(project, number, epoch=None)
        project.store.streams.desire(CLICKS, DesiredState.RUNNING)
        assert observe_stream(project, CLICKS).failures_in_a_row == 0


def test_a_primary_whose_input_is_away_waits_until_it_finishes_an_epoch(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        away = Sample(stream=CLICKS, replica="p1", name=SampleName.INPUT_AWAY, value=1.0)
        project.store.samples.write([away])
        assert observe_stream(project, CLICKS).verdict.health is Health.WAITING
        a_heartbeat(project, "p1", epoch=99)
        assert observe_stream(project, CLICKS).verdict.health is Health.HEALTHY


def test_a_primary_between_two_tries_of_its_query_waits_and_has_not_failed(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_primary(project, "clicks-1")
        a_heartbeat(project, "clicks-1", epoch=3, observed=Switches(deploy=True))
        verdict = observe_stream(project, CLICKS).verdict
        assert verdict.health is Health.WAITING
        assert not verdict.health.failed


def test_a_stream_that_was_stopped_meanwhile_is_not_launched(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert launch_primary(project, CLICKS) is None
        assert project.store.replicas.of(CLICKS) == []
        assert observe_stream(project, CLICKS).verdict.health is Health.STOPPED


def test_a_look_shows_the_tier_wanted_and_the_one_that_is_covered(tmp_path: Path) -> None:
    with simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT).open() as project:
        assert observe_stream(project, CLICKS).tier is Tier.ACTIVE_STANDBY
        a_wanted_stream(project)
        a_primary(project, "clicks-1")
        a_secondary(project, "clicks-2", observed=SECONDARY[Tier.PASSIVE_STANDBY_COLD])
        status = observe_stream(project, CLICKS)
        assert (status.tier, status.covered) == (Tier.ACTIVE_STANDBY, Tier.PASSIVE_STANDBY_COLD)
        assert status.secondary_verdict is not None
        assert status.secondary_verdict.health is Health.HEALTHY
        project.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="")
        assert observe_stream(project, CLICKS).tier is Tier.DEPLOYED


def test_a_dead_secondary_covers_nothing(tmp_path: Path) -> None:
    with simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT).open() as project:
        a_wanted_stream(project)
        a_secondary(project, "clicks-2", alive=False)
        status = observe_stream(project, CLICKS)
        assert status.covered is Tier.PASSIVE_REPLICATION
        assert status.secondary_verdict is not None
        assert status.secondary_verdict.health is Health.DEAD


def test_the_last_primary_is_the_live_one_even_if_it_is_older(tmp_path: Path) -> None:
    with simulated_projects(tmp_path, tier="deployed", supervision=PATIENT).open() as project:
        a_wanted_stream(project)
        a_secondary(project, "older")
        a_primary(project, "younger")
        project.store.takeovers.take(
            CLICKS, "older", primary="younger", observed=None, ttl_seconds=3.0, reason="gone"
        )
        status = observe_stream(project, CLICKS)
        assert status.primary is not None
        assert status.last_primary == status.primary
        assert status.primary.id == "older"
        project.store.replicas.end("older", ReplicaState.FAILED, "no luck", by=EndedBy.REPLICA)
        last = observe_stream(project, CLICKS).last_primary
        assert last is not None
        assert last.id == "older"


def test_secondaries_that_end_by_themselves_are_counted_and_forgiven(tmp_path: Path) -> None:
    with simulated_projects(tmp_path, tier="deployed", supervision=PATIENT).open() as project:
        a_wanted_stream(project)
        a_primary(project, "clicks-0")
        for number, state in enumerate([ReplicaState.FAILED, ReplicaState.DEAD], 1):
            a_secondary(project, f"s{number}", observed=OFF, desired=Switches(deploy=True))
            project.store.replicas.end(f"s{number}", state, "no luck", by=EndedBy.REPLICA)
        assert observe_stream(project, CLICKS).secondary_failures_in_a_row == 2
        later = project.store.now() + 1.0
        forgiven = observe_stream(project, CLICKS, secondaries_since=later)
        assert forgiven.secondary_failures_in_a_row == 0
        a_secondary(project, "s3")
        project.store.replicas.end("s3", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        assert observe_stream(project, CLICKS).secondary_failures_in_a_row == 0


def test_secondaries_that_die_once_deployed_count_wherever_the_snapshots_have_got_to(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT).open() as project:
        a_wanted_stream(project)
        a_primary(project, "clicks-0")
        for number in range(3):
            a_secondary(project, f"s{number}", observed=Switches(deploy=True))
            a_heartbeat(project, f"s{number}", epoch=10 * number, observed=Switches(deploy=True))
            project.store.replicas.end(
                f"s{number}", ReplicaState.FENCED, "the process is gone", by=EndedBy.REPLICA
            )
        status = observe_stream(project, CLICKS)
        assert status.secondary_failures_in_a_row == 3
        assert isinstance(next_step(status.recover_facts()), GiveUpSecondary)


def test_no_second_secondary_is_ever_started(tmp_path: Path) -> None:
    with simulated_projects(tmp_path, tier="deployed", supervision=PATIENT).open() as project:
        assert launch_secondary(project, CLICKS) is None, "nothing is declared"
        a_wanted_stream(project)
        a_secondary(project, "s1")
        assert launch_secondary(project, CLICKS) is None
        project.store.replicas.end("s1", ReplicaState.STOPPED, "", by=EndedBy.REPLICA)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert launch_secondary(project, CLICKS) is None
        assert project.store.replicas.of(CLICKS) == []
