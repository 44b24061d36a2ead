"""Whether the replicas of a stream cover its tier, what is missing, and what playbooks did about it."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from holdfast.assets.tiers import tier_metadata
from holdfast.ft_policies.playbooks.recover.steps import LaunchSecondary, TurnSwitch
from holdfast.ft_policies.tiers import SECONDARY, Switch, Switches, Tier
from holdfast.observation.coverage import TierCoverage, coverage_of
from holdfast.observation.playbook_runs import find_current_change, recent_changes
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.base import JournalWriter
from holdfast.resources.control_store.records import DesiredState, EndedBy, Phase, ReplicaState
from holdfast.resources.project import Project
from tests.builders.streams import CLICKS, a_primary, a_secondary, a_wanted_stream
from tests.fakes.followers import PATIENT
from tests.fakes.projects import simulated_projects

RECEIVE_ON = TurnSwitch("s1", Switch.RECEIVE, on=True)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A stream that runs and should be in active standby."""
    with simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT).open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        yield project


def now(project: Project) -> TierCoverage:
    return coverage_of(observe_stream(project, CLICKS))


def a_run(project: Project, run: str, *, playbook: str = "switch") -> JournalWriter:
    return JournalWriter(project=project, stream=CLICKS, playbook=playbook, run=run)


def rows(value: object) -> list[dict[str, object]]:
    assert isinstance(value, dg.TableMetadataValue)
    return [dict(record.data) for record in value.records]


def test_a_secondary_with_all_its_switches_on_covers_the_tier(project: Project) -> None:
    a_secondary(project)
    assert now(project) == TierCoverage(
        tier=Tier.ACTIVE_STANDBY,
        covered_tier=Tier.ACTIVE_STANDBY,
        covered=True,
        reason="active_standby is covered",
    )


def test_more_than_the_tier_needs_covers_it_too(project: Project) -> None:
    a_secondary(project, observed=SECONDARY[Tier.ACTIVE_REPLICATION])
    coverage = now(project)
    assert coverage.covered
    assert coverage.covered_tier is Tier.ACTIVE_REPLICATION


def test_without_a_secondary_the_tier_is_not_covered(project: Project) -> None:
    coverage = now(project)
    assert not coverage.covered
    assert coverage.covered_tier is Tier.PASSIVE_REPLICATION
    assert coverage.reason == "only passive_replication is covered: there is no secondary"


def test_secondaries_that_failed_are_named(project: Project) -> None:
    for number in range(2):
        a_secondary(project, f"s{number}", epoch=None)
        project.store.replicas.end(
            f"s{number}", ReplicaState.FAILED, "column x is missing", by=EndedBy.REPLICA
        )
    assert "2 failed in a row, the last: column x is missing" in now(project).reason


def test_switches_that_are_off_are_named_in_the_order_of_the_plan(project: Project) -> None:
    a_secondary(project, observed=Switches(deploy=True))
    assert now(project).reason == "only deployed is covered: s1 has receive, process off"


def test_a_pause_for_a_loaded_host_is_the_reason(project: Project) -> None:
    a_secondary(project, observed=Switches(deploy=True, receive=True), state=ReplicaState.PAUSED)
    coverage = now(project)
    assert not coverage.covered
    assert "paused and covers deployed" in coverage.reason
    assert "the host is busy" in coverage.reason


def test_a_stopped_stream_has_nothing_to_hold(project: Project) -> None:
    project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    coverage = now(project)
    assert coverage.covered
    assert "active_standby applies from the next start" in coverage.reason


def test_a_change_shows_its_steps_and_the_one_that_is_under_way(project: Project) -> None:
    run = a_run(project, "run-1")
    run.write(LaunchSecondary(), Phase.INTENT)
    run.write(LaunchSecondary(), Phase.DONE, 0.1, replica="s1")
    run.write(RECEIVE_ON, Phase.INTENT)
    change = find_current_change(recent_changes(project.store, CLICKS), at=project.store.now())
    assert change is not None
    assert (change.playbook, change.run) == ("switch", "run-1")
    assert [(s.step, s.about, s.phase) for s in change.steps] == [
        ("LaunchSecondary", "s1", Phase.DONE),
        ("TurnSwitch", "receive on", Phase.INTENT),
    ]


@pytest.mark.parametrize(
    ("phase", "seconds", "is_current"),
    [(Phase.DONE, 1.0, True), (Phase.DONE, 6.0, False), (Phase.FAILED, 1.0, False)],
)
def test_a_change_is_under_way_between_two_steps_but_not_once_they_have_ended(
    project: Project, phase: Phase, seconds: float, *, is_current: bool
) -> None:
    run = a_run(project, "run-1")
    run.write(RECEIVE_ON, Phase.INTENT)
    run.write(RECEIVE_ON, phase, 2.0)
    changes = recent_changes(project.store, CLICKS)
    ended_at = changes[-1].steps[-1].at
    assert (find_current_change(changes, at=ended_at + seconds) is not None) is is_current


def test_a_run_that_finished_what_another_began_has_the_last_word(project: Project) -> None:
    killed, finishing = a_run(project, "run-1"), a_run(project, "run-2", playbook="recover")
    killed.write(RECEIVE_ON, Phase.INTENT)
    finishing.write(RECEIVE_ON, Phase.INTENT)
    finishing.write(RECEIVE_ON, Phase.DONE, 2.0)
    a_run(project, "run-3", playbook="stop").write(LaunchSecondary(), Phase.INTENT)
    changes = recent_changes(project.store, CLICKS)
    assert [change.run for change in changes] == ["run-1", "run-2"]
    assert find_current_change(changes, at=project.store.now() + 6.0) is None


def test_the_asset_shows_history_switches_and_steps(project: Project) -> None:
    a_secondary(project, observed=Switches(deploy=True), desired=Switches(deploy=True, sync=True))
    a_run(project, "run-1").write(RECEIVE_ON, Phase.DONE, 2.0)
    project.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="cheaper", run="run-1")
    project.store.tiers.record_reached(CLICKS, tier=Tier.DEPLOYED)
    metadata = tier_metadata(project, observe_stream(project, CLICKS))

    assert (metadata["tier"], metadata["covered_tier"]) == ("deployed", "deployed")
    assert (metadata["tier_strength"], metadata["covered_strength"]) == (1, 1)
    first, second = rows(metadata["history"])
    assert (first["from"], first["to"], first["why"]) == ("", "active_standby", "declared")
    assert first["seconds_until_reached"] is None
    assert (second["from"], second["to"], second["run"]) == ("active_standby", "deployed", "run-1")
    assert isinstance(second["seconds_until_reached"], float)
    primary, secondary = rows(metadata["switches"])
    assert (primary["slot"], primary["send"]) == ("primary", "on")
    assert (secondary["deploy"], secondary["sync"]) == ("on", "off, wanted on")
    [step] = rows(metadata["steps"])
    assert (step["step"], step["about"], step["seconds"]) == ("TurnSwitch", "receive on", 2.0)
