"""`holdfast status` of a stream with a secondary: tiers, switches, and a change under way."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.playbooks.recover.steps import LaunchSecondary, TurnSwitch
from holdfast.ft_policies.tiers import SECONDARY, Switch, Switches, Tier
from holdfast.orchestration.playbooks.base import JournalWriter
from holdfast.resources.control_store.records import Phase
from holdfast.resources.project import Project
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recorded_stream import REPLICA, STREAM, a_running_stream, an_open_project
from tests.builders.streams import a_secondary
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.followers import PATIENT

DEPLOYED = Switches(deploy=True)
RECEIVE_ON = TurnSwitch("s1", Switch.RECEIVE, on=True)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A stream that runs and should be in active standby."""
    with an_open_project(
        a_project(tmp_path, clicks=stream_yaml(tier="active_standby", supervision=PATIENT))
    ) as project:
        a_running_stream(project, epochs=5, committed=3)
        yield project


def a_turn_under_way(project: Project) -> None:
    run = JournalWriter(project=project, stream=STREAM, playbook="switch", run="cli-1")
    run.write(LaunchSecondary(), Phase.INTENT)
    run.write(LaunchSecondary(), Phase.DONE, 0.1, replica="s1")
    run.write(RECEIVE_ON, Phase.INTENT)


def test_the_primary_comes_first_and_the_secondary_with_its_lag(
    tmp_path: Path, project: Project
) -> None:
    a_secondary(project, epoch=1, host="elsewhere")
    (stream,) = holdfast_json(tmp_path, "status")["streams"]
    primary, secondary = stream["replicas"]
    assert (primary["id"], primary["slot"], primary["lag_epochs"]) == (REPLICA, "primary", 2)
    assert (secondary["id"], secondary["slot"], secondary["lag_epochs"]) == ("s1", "secondary", 3)
    assert (secondary["health"], secondary["pid"]) == ("healthy", os.getpid())
    assert stream["tier"] == stream["covered_tier"] == "active_standby"
    assert stream["tier_covered"]
    assert stream["change"] is None
    assert [change["tier_to"] for change in stream["tier_history"]] == ["active_standby"]


def test_a_change_under_way_is_shown_with_its_steps(tmp_path: Path, project: Project) -> None:
    a_secondary(project, observed=DEPLOYED, desired=Switches(deploy=True, receive=True))
    a_turn_under_way(project)
    (stream,) = holdfast_json(tmp_path, "status")["streams"]
    assert (stream["tier"], stream["covered_tier"]) == ("active_standby", "deployed")
    assert not stream["tier_covered"]
    change = stream["change"]
    assert (change["playbook"], change["run"]) == ("switch", "cli-1")
    launch, turn, planned = change["steps"]
    assert (launch["step"], launch["phase"], launch["seconds"]) == ("LaunchSecondary", "done", 0.1)
    assert (turn["about"], turn["phase"]) == ("receive on", "intent")
    assert 0 <= turn["seconds"] <= change["age_seconds"]
    assert (planned["about"], planned["phase"], planned["seconds"]) == (
        "process on",
        "planned",
        None,
    )


def test_between_two_steps_a_change_is_shown_with_what_is_to_come(
    tmp_path: Path, project: Project
) -> None:
    a_secondary(project, observed=Switches(deploy=True, receive=True))
    a_turn_under_way(project)
    run = JournalWriter(project=project, stream=STREAM, playbook="switch", run="cli-1")
    run.write(RECEIVE_ON, Phase.DONE, 2.0)
    (stream,) = holdfast_json(tmp_path, "status")["streams"]
    assert [(s["about"], s["phase"]) for s in stream["change"]["steps"]] == [
        ("s1", "done"),
        ("receive on", "done"),
        ("process on", "planned"),
    ]


def test_status_shows_what_is_lacking_and_what_is_done_about_it(
    tmp_path: Path, project: Project
) -> None:
    a_secondary(project, observed=DEPLOYED, desired=Switches(deploy=True, receive=True))
    a_turn_under_way(project)
    shown = " ".join(run_holdfast(tmp_path, "status").stdout.split())
    assert "covered: deployed" in shown
    assert "on: deploy; wanted: deploy, receive" in shown
    assert "on: deploy, receive, process, send" in shown
    assert "only deployed is covered: s1 has receive, process off" in shown
    assert "switch (cli-1): LaunchSecondary s1 0.1 s, TurnSwitch receive on for" in shown
    assert "…, then TurnSwitch process on" in shown


def test_an_intent_that_a_dead_run_left_is_no_change_under_way(
    tmp_path: Path, project: Project
) -> None:
    a_secondary(project, observed=SECONDARY[Tier.ACTIVE_STANDBY])
    a_turn_under_way(project)
    (stream,) = holdfast_json(tmp_path, "status")["streams"]
    assert stream["change"] is None


def test_the_history_of_a_tier_is_shown_with_its_reasons(tmp_path: Path, project: Project) -> None:
    project.store.tiers.desire(STREAM, Tier.PASSIVE_REPLICATION, why="at night", run="r")
    project.store.tiers.record_reached(STREAM, tier=Tier.PASSIVE_REPLICATION)
    shown = run_holdfast(tmp_path, "status", STREAM).stdout
    assert "tier history" in shown
    assert "at night" in shown
    assert "after 0." in shown
