"""`holdfast simulate`: presets, loads and files, what is ranked by, plots, and mistakes said plainly."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.ft_policies.simulator.system import MeasuredRecoveries, ThesisRecoveries
from holdfast.orchestration.cli.views.scenarios import FittedSystem, fit_system
from holdfast.orchestration.playbooks.launch import declare
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recorded_stream import STREAM, a_running_stream, an_open_project
from tests.cli import holdfast_json, run_holdfast

PNG = b"\x89PNG"
SHORT = ("--days", "0.01", "--objective", "0,10,60")
TRACE = """seconds,rows_per_second,state_bytes
0,1000,1000000
600,5000,400000000
1200,1000,1000000
"""


def test_the_thesis_is_a_table_with_a_line_for_each_objective(tmp_path: Path) -> None:
    result = run_holdfast(tmp_path, "simulate", "--preset", "thesis", "--objective", "0,4,20")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "objective" in lines[0]
    assert "active_replication 100 %" in lines[1]
    assert "passive_standby_hot 98 %" in lines[2]
    assert "passive_replication 98 %" in lines[4]
    assert "ranked by all_costs" in result.output


def test_programs_get_every_number(tmp_path: Path) -> None:
    output = holdfast_json(
        tmp_path, "simulate", *SHORT, "--streams", "3", "--failures-per-day", "100"
    )
    assert (output["preset"], output["streams"], output["ranked_by"]) == (
        "measured",
        3,
        "all_costs",
    )
    assert output["seconds"] == pytest.approx(864)
    strict, some, easy = output["outcomes"]
    assert strict["time_share"]["active_replication"] == 1
    assert strict["overhead"] == pytest.approx(dict.fromkeys(strict["overhead"], 1))
    assert easy["time_share"]["passive_replication"] > 0.5
    assert strict["cost"] > some["cost"] > easy["cost"]
    assert strict["failures"] == easy["failures"] > 0
    assert strict["money"] is None


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    asked = ("simulate", *SHORT, "--load", "erratic", "--failures-per-day", "500", "--seed")
    assert holdfast_json(tmp_path, *asked, "4") == holdfast_json(tmp_path, *asked, "4")
    assert holdfast_json(tmp_path, *asked, "4") != holdfast_json(tmp_path, *asked, "5")


def test_a_price_list_ranks_in_money(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())
    result = run_holdfast(root, "simulate", *SHORT, "--weights", "spot")
    assert result.exit_code == 0, result.output
    assert "USD" in result.output
    assert "ranked by spot" in result.output
    (free, *_) = holdfast_json(root, "simulate", *SHORT, "--weights", "kubernetes_share")[
        "outcomes"
    ]
    assert free["money"]["per_hour"] == pytest.approx(free["money"]["always_active_replication"])


def test_a_recorded_load_is_as_long_as_its_file(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_text(TRACE)
    output = holdfast_json(
        tmp_path, "simulate", "--trace", str(tmp_path / "load.csv"), "--objective", "12"
    )
    assert output["seconds"] == 1200
    assert output["outcomes"][0]["switches_per_hour"] > 0


def test_the_controller_may_choose_among_intervals(tmp_path: Path) -> None:
    asked = ("simulate", "--days", "0.02", "--objective", "10", "--load", "step")
    fixed = holdfast_json(tmp_path, *asked, "--intervals", "60")["outcomes"][0]
    free = holdfast_json(tmp_path, *asked, "--intervals", "60,2,10")["outcomes"][0]
    assert free["cost"] < fixed["cost"]


def test_gap_is_cheaper_than_precise(tmp_path: Path) -> None:
    asked = ("simulate", "--preset", "thesis", "--objective", "5", "--guarantee")
    precise, gap = (
        holdfast_json(tmp_path, *asked, word)["outcomes"][0] for word in ("precise", "gap")
    )
    assert gap["cost"] < precise["cost"]


@pytest.mark.parametrize("objectives", ["0,4,8", "5.5"])
def test_a_plot_is_drawn_of_many_objectives_or_of_one_over_time(
    tmp_path: Path, objectives: str
) -> None:
    target = tmp_path / "plots" / "found.png"
    result = run_holdfast(
        tmp_path, "simulate", "--preset", "thesis", "--objective", objectives, "--plot", str(target)
    )
    assert result.exit_code == 0, result.output
    assert f"drawn: {target}" in result.output
    assert target.read_bytes()[:4] == PNG


def test_a_stream_is_simulated_as_its_store_knows_it(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())
    with an_open_project(root) as project:
        a_running_stream(project)
    output = holdfast_json(root, "simulate", "--stream", STREAM, *SHORT)
    assert (output["stream"], output["ranked_by"]) == (STREAM, "on_demand")
    assert output["guarantee"] == "precise"
    assert "deploy" in output["assumed_steps"]
    result = run_holdfast(root, "simulate", "--stream", STREAM, *SHORT)
    assert "not measured on clicks, defaults used: deploy" in result.output
    assert output["outcomes"][0]["money"]["currency"] == "USD"
    assert holdfast_json(root, "simulate", "--stream", STREAM, *SHORT, "--weights", "ec2")[
        "ranked_by"
    ] == ("ec2")


def test_the_preset_is_measured_on_the_only_stream_that_was_started(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(), views=stream_yaml(name="views"))
    before = run_holdfast(root, "simulate", *SHORT)
    assert "measurements from Holdfast's own benchmark; give --stream STREAM" in before.stderr
    with an_open_project(root) as project:
        a_running_stream(project)
    output = run_holdfast(root, "simulate", *SHORT)
    assert "measurements from clicks, the only stream started in this project" in output.stderr
    assert holdfast_json(root, "simulate", *SHORT) == holdfast_json(
        root, "simulate", "--stream", STREAM, *SHORT
    )
    with an_open_project(root) as project:
        declare(project.config, project.store, "views")
    assert holdfast_json(root, "simulate", *SHORT)["stream"] is None


def fit(root: Path, *, section: Mapping[str, object]) -> FittedSystem:
    """A running stream with this controller, as a simulation takes it."""
    a_project(root, clicks=stream_yaml(controller=section, checkpoint={"every": "10s"}))
    with an_open_project(root) as project:
        a_running_stream(project)
        project.store.streams.set_intervals(STREAM, snapshot_every=20.0, sync_every=None)
        return fit_system(project, STREAM)


def test_a_stream_has_the_intervals_of_now_unless_its_controller_may_choose(tmp_path: Path) -> None:
    paced = fit(tmp_path / "paced", section={}).system
    assert (paced.snapshot_every, paced.sync_every) == ((20.0,), (5.0,))
    bounds = {"snapshot_every": {"min": "5s", "max": "40s"}}
    free = fit(tmp_path / "free", section=bounds).system
    assert (free.snapshot_every[0], free.snapshot_every[-1]) == (5.0, 40.0)
    assert 20.0 in free.snapshot_every
    assert set(free.sync_every) == {5.0}


def test_a_stream_is_controlled_and_judged_as_it_declares(tmp_path: Path) -> None:
    section = {"cool_down": "7s", "count_detection": False}
    own = fit(tmp_path / "own", section=section).system
    assert own.policy.cool_down_seconds == 7
    assert isinstance(own.recoveries, MeasuredRecoveries)
    assert not own.recoveries.model.count_detection
    thesis = fit(tmp_path / "thesis", section={"estimator": "thesis"}).system
    assert isinstance(thesis.recoveries, ThesisRecoveries)
    assert thesis.recoveries.model.count_detection


def test_a_sink_that_bears_one_caller_keeps_a_stream_out_of_active_replication(
    tmp_path: Path,
) -> None:
    own = {
        "sink": {"kind": "callable", "function": "json:dumps"},
        "objective": {"recovery_time": "10s", "guarantee": "rollback"},
    }
    root = a_project(tmp_path, clicks=stream_yaml(**own))
    output = holdfast_json(root, "simulate", "--stream", STREAM, *SHORT)
    assert output["guarantee"] == "rollback"
    assert output["outcomes"][0]["time_share"]["active_standby"] == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--preset", "thesys"), "--preset: 'thesys': did you mean thesis?"),
        (("--load", "stepp"), "--load: 'stepp': did you mean step?"),
        (("--weights", "on_demnd"), "--weights: 'on_demnd': did you mean on_demand?"),
        (("--objective", "1,x"), "--objective: '1,x' is not a list of seconds such as 0,2.5,10"),
        (("--objective", "-1"), "--objective: '-1': each number must be finite and at least 0"),
        (
            ("--objective", "5,nan"),
            "--objective: '5,nan': each number must be finite and at least 0",
        ),
        (("--objective", "inf"), "must be finite"),
        (("--intervals", "0"), "--intervals: '0': each number must be finite and at least 0.1"),
        (("--intervals", ",".join(map(str, range(1, 52)))), "51 numbers: at most 50 are allowed"),
        (("--stream", "clicks", "--preset", "thesis"), "remove --preset or --stream"),
        (("--streams", "50000", "--objective", "1,2,3"), "give fewer of them"),
        (("--plot", "found.txt"), "the file name must end with .png, .svg, .pdf"),
        (("--trace", "{root}/load.csv", "--load", "step"), "give either --trace or --load"),
    ],
)
def test_wrong_usage_is_said_with_what_to_write(
    tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())
    (root / "load.csv").write_text(TRACE)
    result = run_holdfast(root, "simulate", *(word.format(root=root) for word in options))
    assert result.exit_code == 2, result.output
    assert says in result.output


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--stream", "clics"), "did you mean clicks?"),
        (("--trace", "{root}/named.csv"), "no column rows_per_second"),
        (("--trace", "{root}/words.csv"), "words.csv:3: '5,many,1' is not three numbers"),
        (("--trace", "{root}/back.csv"), "back.csv: the seconds of a trace must increase"),
        (("--trace", "{root}/empty.csv"), "at least one"),
    ],
)
def test_mistakes_are_said_with_what_to_do(
    tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())
    head = "seconds,rows_per_second,state_bytes\n"
    (root / "named.csv").write_text("seconds,rate,state_bytes\n0,1,1\n")
    (root / "words.csv").write_text(f"{head}0,1,1\n5,many,1\n")
    (root / "back.csv").write_text(f"{head}5,1,1\n0,1,1\n")
    (root / "empty.csv").write_text(head)
    result = run_holdfast(root, "simulate", *(word.format(root=root) for word in options))
    assert result.exit_code == 1, result.output
    assert says in result.output.replace("\n", " ")
    assert "Traceback" not in result.output
