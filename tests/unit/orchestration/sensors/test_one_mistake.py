"""A mistake in the file of one stream, or an error in its records, is that stream's alone."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.loading import InvalidConfig
from holdfast.configs.project import ProjectConfig
from holdfast.observation import review
from holdfast.observation.alerts import find_incident_alerts
from holdfast.observation.review import Reviewer
from holdfast.orchestration.schedules import durable_snapshots
from holdfast.orchestration.sensors.tier_review import due_switches
from holdfast.resources.control_store.records import DesiredState
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.notifiers import AlertKind
from holdfast.resources.project import open_project
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recovery_sensor import tick
from tests.builders.reviews import AT_ONCE
from tests.builders.streams import a_dead_primary, a_primary, a_wanted_stream, commit_epochs
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.clocks import shift_clock
from tests.fakes.projects import SimulatedProjects, simulated_projects

REPOSITORY = Path(__file__).parents[4]


def recovered(projects: SimulatedProjects) -> list[str]:
    return [request.tags["holdfast/stream"] for request in tick(projects).run_requests or []]


def write(projects: SimulatedProjects, name: str, text: str) -> None:
    (projects.root / "configs" / "streams" / f"{name}.yaml").write_text(text, encoding="utf-8")


def test_streams_are_recovered_beside_a_broken_file_and_by_their_last_declaration(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta", "gamma")
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    write(projects, "alpha", stream_yaml(name="alpha", tier="no_such_tier"))
    write(projects, "gamma", "name: gamma\n  - [")
    assert recovered(projects) == ["alpha", "beta"]


def test_a_broken_file_is_shown_by_status_and_the_other_streams_are_too(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta")
    with projects.open() as project:
        a_wanted_stream(project, "alpha")
    write(projects, "alpha", stream_yaml(name="alpha", extra=1))
    output = holdfast_json(tmp_path, "status")
    assert [stream["stream"] for stream in output["streams"]] == ["alpha", "beta"]
    assert "alpha.yaml" in output["problems"][0]
    assert run_holdfast(tmp_path, "check").exit_code == 1
    assert run_holdfast(tmp_path, "start", "alpha", "--dry-run").exit_code == 1
    assert run_holdfast(tmp_path, "start", "beta", "--dry-run").exit_code == 0
    assert list(ProjectConfig.load(tmp_path, tolerant=True).streams) == ["beta"]


def test_an_operator_can_act_on_streams_beside_a_broken_file(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta", "gamma")
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    write(projects, "alpha", stream_yaml(name="alpha", extra=1))
    write(projects, "gamma", "name: gamma\n  - [")
    for stream in ("alpha", "beta"):
        for command in (["recover"], ["stop"]):
            result = run_holdfast(tmp_path, *command, stream, "--dry-run")
            assert result.exit_code == 0, result.output
            assert "alpha.yaml" in result.output
    assert run_holdfast(tmp_path, "switch", "beta", "deployed", "--dry-run").exit_code == 0
    assert run_holdfast(tmp_path, "stop", "gamma", "--dry-run").exit_code == 1  # never started
    assert "alpha.yaml" in run_holdfast(tmp_path, "migrate", "alpha", "--dry-run").output
    of_beta = run_holdfast(tmp_path, "migrate", "beta", "--dry-run")
    assert "runs as declared" in of_beta.output


def spoil_the_row(projects: SimulatedProjects, stream: str) -> None:
    with open_project(projects.root) as project:
        engine = sa.create_engine(project.config.control_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE streams SET tier = 'nonsense' WHERE name = '{stream}'")  # noqa: S608
    engine.dispose()


def test_an_error_in_the_records_of_a_stream_does_not_end_the_tick(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta")
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    spoil_the_row(projects, "alpha")
    assert recovered(projects) == ["beta"]


def test_an_incident_that_cannot_be_read_does_not_end_the_tick(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta")
    with projects.open() as project:
        for stream in ("alpha", "beta"):
            a_dead_primary(project, f"{stream}1", stream)
    assert recovered(projects) == ["alpha", "beta"]
    with projects.open() as project, project.store._database.write() as connection:
        connection.exec_driver_sql("UPDATE incidents SET kind = 'new' WHERE stream = 'alpha'")
    assert recovered(projects) == ["beta"]


def test_an_error_in_the_records_of_a_stream_leaves_the_others_their_snapshots(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta")
    with projects.open() as project:
        for stream in ("alpha", "beta"):
            a_wanted_stream(project, stream)
            a_primary(project, f"{stream}1", stream)
    spoil_the_row(projects, "alpha")
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    context = dg.build_schedule_context(scheduled_execution_time=moment)
    requests = durable_snapshots(context, projects=projects)
    assert isinstance(requests, list)
    assert [request.tags["holdfast/stream"] for request in requests] == ["beta"]


def test_an_error_in_the_records_of_a_stream_leaves_the_others_their_reviews_and_alerts(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta", controller=AT_ONCE)
    with projects.open() as project:
        for stream in ("alpha", "beta"):
            a_dead_primary(project, f"{stream}1", stream)
            commit_epochs(project, 1, name=stream)
    spoil_the_row(projects, "alpha")
    assert recovered(projects) == ["beta"]
    with projects.open() as project:
        shift_clock(project.store, 86_400.0)
        kinds = {(row.stream, row.kind) for row in find_incident_alerts(project, closed_since=0.0)}
        due = due_switches(project, Reviewer())
    assert kinds == {
        ("beta", AlertKind.INCIDENT_OPEN),
        ("beta", AlertKind.OBJECTIVE_MISSED),
    }
    assert [switch.decision.stream for switch in due] == ["beta"]


def test_a_stream_that_cannot_be_reviewed_leaves_the_others_their_reviews(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta", controller=AT_ONCE)

    def measure(store: ControlStore, declared: Sequence[StreamDeclaration]) -> object:
        if any(stream.name == "alpha" for stream in declared):
            raise ZeroDivisionError
        return review_measurements(store, declared)

    with projects.open() as project:
        for stream in ("alpha", "beta"):
            a_wanted_stream(project, stream)
            commit_epochs(project, 1, name=stream)
        review_measurements = review.measure
        monkeypatch.setattr(review, "measure", measure)
        due = due_switches(project, Reviewer())
    assert [switch.decision.stream for switch in due] == ["beta"]


PRICES = (REPOSITORY / "configs" / "price_lists" / "on_demand.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("mistake", ["home: [", "hom: x\n", "home: configs\n", "home: data\n"])
def test_a_mistake_in_the_deployment_stops_no_recovery(tmp_path: Path, mistake: str) -> None:
    stream = stream_yaml(name="alpha", sink={"kind": "delta", "path": "data/out"})
    root = a_project(tmp_path, alpha=stream, holdfast="home: state\n")
    projects = SimulatedProjects(root)
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
    (root / "configs" / "holdfast.yaml").write_text(mistake, encoding="utf-8")
    assert recovered(projects) == ["alpha"]
    with projects.open() as project:
        assert project.config.home == root / "state"
    assert run_holdfast(tmp_path, "recover", "alpha", "--dry-run").exit_code == 0
    assert run_holdfast(tmp_path, "check").exit_code == 1
    assert run_holdfast(tmp_path, "start", "alpha", "--dry-run").exit_code == 1
    with projects.open() as project:  # once more: the copy was not replaced by the mistake
        assert project.config.home == root / "state"
        assert any(problem.file == "configs/holdfast.yaml" for problem in project.config.problems)


@pytest.mark.parametrize("text", ["currency: x\n", None])
def test_a_mistake_in_a_price_list_stops_no_recovery(tmp_path: Path, text: str | None) -> None:
    root = a_project(tmp_path, alpha=stream_yaml(name="alpha", prices="ours"))
    prices = root / "configs" / "prices" / "ours.yaml"
    prices.parent.mkdir()
    prices.write_text(PRICES, encoding="utf-8")
    projects = SimulatedProjects(root)
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
    prices.unlink() if text is None else prices.write_text(text, encoding="utf-8")
    assert recovered(projects) == ["alpha"]
    with projects.open() as project:
        assert project.prices(project.config.stream("alpha")).currency == "USD"


def test_a_mistake_that_was_never_right_is_an_error(tmp_path: Path) -> None:
    root = a_project(tmp_path, alpha=stream_yaml(name="alpha"), holdfast="hom: x\n")
    with pytest.raises(InvalidConfig, match="hom"), SimulatedProjects(root).open():
        pass


def test_a_stream_that_claims_the_table_of_another_does_not_get_it(tmp_path: Path) -> None:
    def sink(path: str) -> dict[str, str]:
        return {"kind": "delta", "path": path}

    projects = simulated_projects(tmp_path, "alpha", "beta")
    for name in ("alpha", "beta"):
        write(projects, name, stream_yaml(name=name, sink=sink(f"out/{name}")))
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    write(projects, "alpha", stream_yaml(name="alpha", sink=sink("out/beta")))  # the earlier file
    with projects.open() as project:
        tables = {name: project.config.table_path(name) for name in ("alpha", "beta")}
        blamed = [problem.file for problem in project.config.problems]
    assert tables == {name: str(tmp_path / "out" / name) for name in ("alpha", "beta")}
    assert blamed == ["configs/streams/alpha.yaml", "configs/streams/beta.yaml"]
    assert recovered(projects) == ["alpha", "beta"]


def test_a_stream_that_claims_the_name_of_another_does_not_get_it(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta")
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    write(projects, "alpha", stream_yaml(name="beta", app="json:dumps"))
    assert recovered(projects) == ["alpha", "beta"]
    with projects.open() as project:
        assert project.config.stream("beta").app == "json:loads"


def test_a_stream_whose_file_is_gone_is_recovered_and_shown_until_it_is_stopped(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta", "gamma")
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
        project.store.streams.declare("gamma", {"name": "gamma"}, "deployed")  # never wanted
    for name in ("alpha", "gamma"):
        (tmp_path / "configs" / "streams" / f"{name}.yaml").unlink()
    assert recovered(projects) == ["alpha", "beta"]
    shown = holdfast_json(tmp_path, "status")
    assert [stream["stream"] for stream in shown["streams"]] == ["alpha", "beta"]
    assert "alpha should run and has no file" in shown["problems"][0]
    checked = run_holdfast(tmp_path, "check")
    assert (checked.exit_code, "should run and has no file" in checked.output) == (1, True)
    assert run_holdfast(tmp_path, "start", "alpha", "--dry-run").exit_code == 1
    with projects.open() as project:
        project.store.streams.desire("alpha", DesiredState.STOPPED)
    assert recovered(projects) == ["beta"]
    assert run_holdfast(tmp_path, "check").exit_code == 0


def test_no_recovery_ends_while_the_folders_of_the_declarations_are_away(tmp_path: Path) -> None:
    stream = stream_yaml(name="alpha")
    projects = SimulatedProjects(a_project(tmp_path, alpha=stream, holdfast="home: state\n"))
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
    shutil.rmtree(tmp_path / "configs" / "streams")
    assert recovered(projects) == ["alpha"]
    shutil.rmtree(tmp_path / "configs")
    assert recovered(projects) == ["alpha"]
    assert ProjectConfig.load(tmp_path, tolerant=True).home == tmp_path / "state"


def test_a_folder_that_never_was_a_project_does_not_become_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="folder not found"), SimulatedProjects(tmp_path).open():
        pass
    assert run_holdfast(tmp_path, "check").exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_check_makes_no_control_store(tmp_path: Path) -> None:
    a_project(tmp_path, alpha=stream_yaml(name="alpha"))
    assert run_holdfast(tmp_path, "check").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["configs"]
