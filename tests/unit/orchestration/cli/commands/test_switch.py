"""`holdfast switch`: the plan, the steps as they are done, and what cannot be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.status import observe_stream
from holdfast.resources.control_store.records import TierChange
from holdfast.resources.project import Project
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recorded_stream import STREAM, a_running_stream, an_open_project
from tests.builders.streams import a_secondary
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.clocks import SleeplessClock
from tests.fakes.followers import PATIENT, following

ELSEWHERE = "object_store: {kind: s3, bucket: elsewhere}"
OWN_SINK = {
    "sink": {"kind": "callable", "function": "json:dumps"},
    "objective": {"recovery_time": "10s", "guarantee": "rollback"},
}
COLD = SECONDARY[Tier.PASSIVE_STANDBY_COLD]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A declared stream whose object store belongs to another project."""
    with an_open_project(
        a_project(tmp_path, clicks=stream_yaml(supervision=PATIENT), holdfast=ELSEWHERE)
    ) as project:
        yield project


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def newest(project: Project) -> TierChange:
    return project.store.tiers.history(STREAM)[-1]


def test_a_stopped_stream_gets_the_tier_when_it_starts(tmp_path: Path, project: Project) -> None:
    result = run_holdfast(tmp_path, "switch", STREAM, "deployed", "--why", "it is cheap enough")
    assert result.exit_code == 0, result.output
    assert "clicks  is stopped: deployed takes effect at `holdfast start clicks`" in result.output
    assert (newest(project).tier_to, newest(project).why) == (Tier.DEPLOYED, "it is cheap enough")
    assert newest(project).reached_at is None


def test_a_switch_shows_each_step_and_notes_that_the_tier_is_reached(
    tmp_path: Path, project: Project
) -> None:
    a_running_stream(project)
    a_secondary(project, observed=COLD)
    with following(project.config.control_url, "s1"):
        result = run_holdfast(tmp_path, "switch", STREAM, "active-standby")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    turns = [line.split("TurnSwitch ")[1].split(" 0")[0] for line in lines if "TurnSwitch" in line]
    assert turns == ["receive on", "process on", "sync off"]
    assert lines[-1] == "✔ clicks  active_standby is covered"
    assert (newest(project).why, newest(project).run[:4]) == (
        "requested on the command line",
        "cli-",
    )
    assert newest(project).reached_at is not None


def test_programs_get_the_steps_and_what_is_covered(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    a_secondary(project, observed=COLD)
    with following(project.config.control_url, "s1"):
        output = holdfast_json(tmp_path, "switch", STREAM, "passive_standby_hot")
    assert [(s["step"], s["turn"]) for s in output["steps"]] == [("TurnSwitch", "receive on")]
    assert output["tier"] == output["covered_tier"] == "passive_standby_hot"
    assert output["covered"]
    assert output["running"]


def test_a_second_switch_to_the_same_tier_does_nothing(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    result = run_holdfast(tmp_path, "switch", STREAM, "passive_replication")
    assert result.exit_code == 0, result.output
    assert "✔ clicks  passive_replication is covered" in result.output
    assert len(project.store.tiers.history(STREAM)) == 1


def test_a_dry_run_shows_the_plan_and_changes_nothing(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    result = run_holdfast(tmp_path, "switch", STREAM, "passive_standby_hot", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "passive_replication → passive_standby_hot" in result.output
    assert "1.  LaunchSecondary" in result.output
    assert "TurnSwitch receive on" in result.output
    assert "has the secondary fetch the input of each new epoch to its own disk" in result.output
    status = observe_stream(project, STREAM)
    assert (status.tier, status.secondary) == (Tier.PASSIVE_REPLICATION, None)
    assert project.store.journal.of(STREAM) == []


def test_a_plan_is_there_for_programs_too(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    a_secondary(project, observed=COLD)
    plan = holdfast_json(tmp_path, "switch", STREAM, "deployed", "--dry-run")
    assert (plan["tier_to"], plan["covered_tier"]) == ("deployed", "passive_standby_cold")
    assert [(s["step"], s["turn"]) for s in plan["steps"]] == [("TurnSwitch", "sync off")]


def test_a_plan_for_a_stopped_stream_says_when_it_takes_effect(
    tmp_path: Path, project: Project
) -> None:
    result = run_holdfast(tmp_path, "switch", STREAM, "deployed", "--dry-run")
    assert "clicks is stopped: the tier takes effect at the next start" in result.output
    assert project.store.streams.get(STREAM) is None


@pytest.mark.parametrize(
    ("named", "says"),
    [
        (("clicks", "actve_standby"), "did you mean active_standby?"),
        (("clicks", "fast"), "choose one of active_replication, active_standby"),
        (("clics", "deployed"), "declared are clicks"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_what_does_not_exist_is_an_error_that_says_what_does(
    tmp_path: Path, project: Project, named: tuple[str, str], says: str, options: tuple[str, ...]
) -> None:
    result = run_holdfast(tmp_path, "switch", *named, *options)
    assert result.exit_code == 1
    assert says in result.output
    assert project.store.streams.get(STREAM) is None


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_two_replicas_may_not_call_a_sink_that_bears_one(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with an_open_project(
        a_project(tmp_path, clicks=stream_yaml(**OWN_SINK, supervision=PATIENT), holdfast=ELSEWHERE)
    ) as project:
        a_running_stream(project)
        result = run_holdfast(tmp_path, "switch", STREAM, "active_replication", *options)
        status = observe_stream(project, STREAM)
    assert result.exit_code == 1
    assert "clicks cannot be in active_replication" in result.output
    assert "set sink.idempotent: true if a second call for an epoch changes nothing" in " ".join(
        result.output.split()
    )
    assert status.tier is Tier.PASSIVE_REPLICATION


def test_an_interrupted_switch_says_who_finishes_it(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    a_secondary(project, observed=COLD)
    interrupted = SleeplessClock(press_ctrl_c)
    result = run_holdfast(tmp_path, "switch", STREAM, "passive_standby_hot", clock=interrupted)
    assert result.exit_code == 130, result.output
    assert (
        "the switch of clicks to passive_standby_hot is recorded, but not finished" in result.output
    )
    assert "`holdfast switch clicks passive_standby_hot`" in result.output
    with following(project.config.control_url, "s1"):
        again = holdfast_json(tmp_path, "switch", STREAM, "passive_standby_hot")
    assert again["covered"]
    assert newest(project).reached_at is not None


def test_a_recovery_can_be_looked_at_before_it_is_done(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    shown = run_holdfast(tmp_path, "recover", STREAM, "--dry-run")
    assert "clicks  needs no recovery" in shown.output
    project.store.tiers.desire(STREAM, Tier.DEPLOYED, why="a test", run="")
    output = holdfast_json(tmp_path, "recover", STREAM, "--dry-run")
    assert [step["step"] for step in output["steps"]] == ["LaunchSecondary", "TurnSwitch"]
    assert project.store.journal.of(STREAM) == []
