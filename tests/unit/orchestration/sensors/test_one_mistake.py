"""A mistake in the file of one stream, or an error in its records, is that stream's alone."""

from pathlib import Path

import sqlalchemy as sa

from holdfast.configs.project import ProjectConfig
from holdfast.resources.project import open_project
from tests.builders.projects import stream_yaml
from tests.builders.recovery_sensor import tick
from tests.builders.streams import a_dead_primary, a_wanted_stream
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.projects import SimulatedProjects, simulated_projects


def recovered(projects: SimulatedProjects) -> list[str]:
    return [one.tags["holdfast/stream"] for one in tick(projects).run_requests or []]


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
    found = holdfast_json(tmp_path, "status")
    assert [stream["stream"] for stream in found["streams"]] == ["alpha", "beta"]
    assert "alpha.yaml" in found["problems"][0]
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


def test_an_error_in_the_records_of_a_stream_does_not_end_the_tick(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta")
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    with open_project(tmp_path) as project:
        engine = sa.create_engine(project.config.control_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE streams SET tier = 'nonsense' WHERE name = 'alpha'")
    engine.dispose()
    assert recovered(projects) == ["beta"]
