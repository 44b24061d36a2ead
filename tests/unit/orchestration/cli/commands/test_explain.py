"""`holdfast explain` and `what-if`: the reasons of a decision, and what others would cost."""

import sys
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.ft_policies.tiering.decision import Decision
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.cli.commands.explain import calibration_lines
from tests.builders.recorded_stream import STREAM, a_running_stream, an_open_project
from tests.builders.tiering import REASON, a_decision, a_decision_row
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.reviewer import SimulatedReviewer


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[Decision]:
    """What the review will say, without the measurements that it would need."""
    decisions = [a_decision(STREAM)]
    review = ModuleType("holdfast.observation.review")
    vars(review).update(Reviewer=partial(SimulatedReviewer, decisions))
    monkeypatch.setitem(sys.modules, "holdfast.observation.review", review)
    return decisions


@pytest.mark.usefixtures("decisions")
def test_every_tier_is_shown_with_its_steps_its_cost_and_why_not(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        result = run_holdfast(tmp_path, "explain", STREAM)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[0] == f"clicks: {REASON}"
    assert "objective 10 s, precise · 1,200 rows/s of 20,000 · state 12 MB" in result.output
    assert "snapshots every 10 s, syncs every 5 s" in result.output
    assert any(line.startswith("→ passive_standby_hot 6.2 s") for line in lines)
    assert "active_replication (now) 0 s 0 s 0.2 costs more" in lines
    assert any(line.startswith("passive_replication 38 s") for line in lines)
    assert lines[-1].endswith("too slow"), "no decision was recorded yet"


def test_what_the_predictions_are_worth_is_said_below_the_tiers() -> None:
    made = a_decision(STREAM)
    worth = ["calibrated by 9 recoveries", *["uncalibrated (2 of the 5)"] * 5]
    tiers = tuple(
        replace(option, calibration=words) for option, words in zip(made.tiers, worth, strict=True)
    )
    first, second = calibration_lines(replace(made, tiers=tiers))
    assert first == "calibrated by 9 recoveries: active_replication"
    assert second.startswith("uncalibrated (2 of the 5): active_standby, passive_standby_hot")
    assert calibration_lines(made) == [], "a record of an older version"


@pytest.mark.usefixtures("decisions")
def test_on_80_columns_no_tier_is_cut(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        result = run_holdfast(tmp_path, "explain", STREAM, columns=80)
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert max(len(line) for line in result.output.splitlines()) <= 80
    assert "…" not in result.output
    assert all(any(tier in line for line in lines) for tier in Tier)
    place = lines.index("active_replication (now) 0 s 0.2 USD/h")
    assert lines[place + 1 : place + 3] == ["first commit 0 s", "costs more"]


def test_the_last_decisions_are_shown_newest_first(
    tmp_path: Path, decisions: list[Decision]
) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        now = project.store.now()
        older = replace(a_decision(STREAM, at=now - 7200), reason="it began so")
        for decision in (older, a_decision(STREAM, at=now - 600)):
            project.store.decisions.write(a_decision_row(decision))
        result = run_holdfast(tmp_path, "explain", STREAM)
        output = holdfast_json(tmp_path, "explain", STREAM)
    *_, newest, oldest = result.output.splitlines()
    assert newest.startswith("10 min ago  passive_standby_hot  auto")
    assert oldest.rstrip().endswith("it began so")
    assert [row["reason"] for row in output["history"]] == ["it began so", REASON]
    assert output["decision"] == decisions[0].to_json()


def test_what_is_not_known_is_said_to_be_unknown(tmp_path: Path, decisions: list[Decision]) -> None:
    first, *others = decisions[0].tiers
    unknown = tuple(replace(option, seconds=inf, steps={}) for option in others)
    decisions[0] = replace(
        decisions[0],
        tiers=(first, *unknown),
        chosen=Tier.ACTIVE_REPLICATION,
        snapshot_every=inf,
        acts=False,
    )
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "explain", STREAM)
        output = holdfast_json(tmp_path, "explain", STREAM)
    assert result.output.count("unknown") == len(others)
    assert "snapshots not by time" in result.output
    assert "switches nothing" in result.output
    assert output["decision"]["tiers"][1]["seconds"] is None


@pytest.mark.usefixtures("decisions")
@pytest.mark.parametrize("command", ["explain", "what-if"])
def test_a_stream_that_is_not_declared_is_an_error(tmp_path: Path, command: str) -> None:
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, command, "clics")
    assert result.exit_code == 1
    assert "declared are clicks" in result.output


@pytest.mark.usefixtures("decisions")
def test_each_objective_has_its_tier_and_its_price(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "what-if", STREAM, "--objectives", "60,0,10")
        output = holdfast_json(tmp_path, "what-if", STREAM, "--objectives", "0,10")
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[1:] == [
        "0 s active_replication 0 s 0.2 2 every 10 s every 5 s",
        "10 s passive_standby_cold 8 s 0.1 1 every 10 s every 5 s",
        "60 s passive_replication 38 s 0.001 0.01 every 10 s every 5 s",
    ]
    assert [objective["tier"] for objective in output["objectives"]] == [
        "active_replication",
        "passive_standby_cold",
    ]
    assert output["objectives"][1]["currency"] == "USD"


@pytest.mark.usefixtures("decisions")
def test_the_curve_is_drawn_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "plots" / "curve.png"
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "what-if", STREAM, "--plot", str(file))
    assert result.exit_code == 0, result.output
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("decisions")
@pytest.mark.parametrize("written", ["five", "1,,2", "-1,3", "0,nan", "5,inf"])
def test_objectives_that_are_none_are_wrong_usage(tmp_path: Path, written: str) -> None:
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "what-if", STREAM, "--objectives", written)
    assert result.exit_code == 2


@pytest.mark.usefixtures("decisions")
def test_a_curve_is_drawn_as_png_only(tmp_path: Path) -> None:
    file = tmp_path / "curve.svg"
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "what-if", STREAM, "--plot", str(file))
    assert result.exit_code == 2
    assert "curve.svg cannot be drawn" in result.output
    assert not file.exists()


def test_a_stream_of_which_nothing_is_known_should_have_the_fastest_tier(tmp_path: Path) -> None:
    """With the review as it is."""
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        result = run_holdfast(tmp_path, "explain", STREAM)
        output = holdfast_json(tmp_path, "explain", STREAM)
        points = holdfast_json(tmp_path, "what-if", STREAM, "--objectives", "0,60")["objectives"]
    assert result.exit_code == 0, result.output
    assert "active_replication" in output["decision"]["reason"]
    assert len(output["decision"]["tiers"]) == 6
    assert "unknown" in result.output
    assert {point["tier"] for point in points} == {"active_replication"}


def test_a_stream_that_never_started_cannot_be_explained(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "explain", STREAM)
    assert result.exit_code == 1
    assert "holdfast start clicks" in result.output
