"""What is declared may change between two lives of a stream, never under a live replica."""

from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.playbooks.launch import launch_primary
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from holdfast.resources.project import Project
from tests.builders.projects import stream_yaml
from tests.builders.streams import (
    CLICKS,
    a_primary,
    a_secondary,
    a_wanted_stream,
    commit_epochs,
)
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    projects = simulated_projects(tmp_path)
    with projects.open() as project:
        a_wanted_stream(project)
    return projects


def declared_again(projects: SimulatedProjects) -> None:
    """The user changes the stream's file: another tier."""
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, tier="deployed"), encoding="utf-8")


def declared_tier(project: Project) -> str:
    row = project.store.streams.get(CLICKS)
    assert row is not None
    return row.declared_tier


def test_a_start_changes_nothing_under_a_secondary_that_may_take_over(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_secondary(project, "s1")
    declared_again(projects)
    with projects.open() as project:
        Start(project, CLICKS, "run").steps()
        assert declared_tier(project) == "passive_replication"
        project.store.replicas.end("s1", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        Start(project, CLICKS, "run").steps()
        assert declared_tier(project) == "deployed"


def test_who_finds_the_slot_taken_declares_nothing(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_primary(project, "p1")
    declared_again(projects)
    with projects.open() as project:
        assert launch_primary(project, CLICKS) is None
        assert declared_tier(project) == "passive_replication"


def test_a_new_primary_goes_by_what_the_stream_was_started_with(
    projects: SimulatedProjects,
) -> None:
    declared_again(projects)
    with projects.open() as project, simulated_drivers(project):
        assert launch_primary(project, CLICKS) is not None
        assert declared_tier(project) == "passive_replication"


def files(path: str, **more: object) -> dict[str, object]:
    return {"kind": "files", "path": path, "format": "jsonl", "schema": "id bigint"} | more


def rate(rows_per_second: float = 500, **more: object) -> dict[str, object]:
    profile = {"kind": "constant", "rows_per_second": rows_per_second}
    return {"kind": "rate", "seed": 1, "keys": 10, "profile": profile} | more


@pytest.mark.parametrize(
    ("source", "change", "field"),
    [
        (files("in"), {"source": files("other")}, "source"),
        (files("in"), {"source": files("in", pattern="a*.jsonl")}, "source"),
        (files("in"), {"source": files("in", pattern="*.jsonl", format="csv")}, "source"),
        (files("in"), {"source": files("in", csv_header=False)}, "source"),
        (files("in"), {"sink": {"kind": "delta", "path": "elsewhere"}}, "sink"),
        (files("in"), {"sink": {"kind": "delta", "partition_by": ["id"]}}, "sink"),
        (files("in"), {"output_mode": "update"}, "output_mode"),
        (rate(), {"source": rate(100)}, "source"),
        (rate(), {"source": rate(limit_rows=1000)}, "source"),
    ],
)
def test_a_stream_with_a_past_is_not_started_with_what_a_migration_refuses(
    tmp_path: Path, source: dict[str, object], change: dict[str, object], field: str
) -> None:
    projects = simulated_projects(tmp_path, source=source)
    with projects.open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 2)
        before = project.store.streams.get(CLICKS)
    declared = {"source": source, **change}
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, **declared), encoding="utf-8")
    with projects.open() as project:
        for act in (Start(project, CLICKS, "run").steps, Start(project, CLICKS, "plan").plan):
            with pytest.raises(PermanentError, match=f"started: {field} cannot change") as raised:
                act()
            assert "a stream of another name" in raised.value.hint
        assert project.store.streams.get(CLICKS) == before


def test_a_stream_with_a_past_is_started_with_what_mends_it(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, source=files("in"))
    with projects.open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 2)
    mended = files(
        "./in",
        schema="id bigint, word string",
        dead_letters={},
        poll="3s",
        settle="5s",
        kept_for="7d",
    )
    sink = {"kind": "delta", "path": f".holdfast/tables/{CLICKS}"}
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, source=mended, sink=sink), encoding="utf-8")
    with projects.open() as project:
        Start(project, CLICKS, "run").begin()
        row = project.store.streams.get(CLICKS)
        assert row is not None
        assert row.declaration["source"]["poll"] == 3.0


READ = "id bigint, n int, user struct<name: string>, tags array<string>"


def start_with(projects: SimulatedProjects, columns: str) -> None:
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, source=files("in", schema=columns)), encoding="utf-8")
    with projects.open() as project:
        Start(project, CLICKS, "run").begin()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("n int, user struct<name: string>, tags array<string>", "id bigint to none of id"),
        (READ.replace("id bigint", "id int"), "id bigint to id int"),
        (READ.replace("n int", "n string"), "n int to n string"),
        (READ.replace("name: string", "age: int"), "user.name string to none of user.name"),
        (READ.replace("array<string>", "string"), "none of tags"),
    ],
)
def test_a_stream_is_not_started_without_a_column_that_its_output_was_made_with(
    tmp_path: Path, columns: str, says: str
) -> None:
    projects = simulated_projects(tmp_path, source=files("in", schema=READ))
    with projects.open() as project:
        a_wanted_stream(project)
    start_with(projects, columns)  # nothing is committed: each schema will do
    start_with(projects, READ)
    with projects.open() as project:
        commit_epochs(project, 2)
    with pytest.raises(PermanentError, match="schema cannot change from") as raised:
        start_with(projects, columns)
    assert says in str(raised.value)


def test_a_stream_with_a_past_is_started_with_more_columns_and_wider_types(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, source=files("in", schema=READ))
    with projects.open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 2)
    start_with(
        projects,
        "word string, N long comment 'was an int', ID BIGINT NOT NULL, tags array<string>, "
        "user struct<name: string, age: int>",
    )
