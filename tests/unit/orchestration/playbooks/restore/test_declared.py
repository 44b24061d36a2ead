"""A restore takes back what the stream ran by, and lets it go on by what is declared now."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.orchestration.playbooks.launch import launch_primary
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.records import DesiredState, Slot
from holdfast.resources.project import Project
from holdfast.streaming.spec import ReplicaSpec
from tests.builders.delta_tables import a_commit, a_table, words
from tests.builders.projects import stream_yaml
from tests.builders.recorded_stream import a_restorable_stream, entries, output
from tests.builders.streams import CLICKS, PATIENT
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import SimulatedProjects, simulated_projects

AT_5 = RestoreTarget(epoch=5)
MENDED = {"app": "json:dumps"}
ELSEWHERE = {"sink": {"kind": "delta", "path": "elsewhere"}}


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    """A stream with a past, which is wanted."""
    projects = simulated_projects(tmp_path, supervision=PATIENT)
    with projects.open() as project:
        a_restorable_stream(project)
        project.store.streams.desire(CLICKS, DesiredState.RUNNING)
    return projects


@contextmanager
def declared_again(projects: SimulatedProjects, **changes: object) -> Iterator[Project]:
    """The project after a change of the stream's file."""
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    text = stream_yaml(name=CLICKS, **{"supervision": PATIENT, **changes})
    file.write_text(text, encoding="utf-8")
    with projects.open() as project:
        yield project


def restoring(project: Project, **options: Any) -> Iterator[str]:
    return (
        step.name
        for step in Restore(project, CLICKS, "run", target=AT_5, why="bad app", **options).steps()
    )


def declared_app(project: Project) -> str:
    row = project.store.streams.get(CLICKS)
    assert row is not None
    return str(row.declaration["app"])


def test_the_mended_application_computes_again_what_was_undone(projects: SimulatedProjects) -> None:
    with (
        declared_again(projects, **MENDED) as project,
        simulated_drivers(project) as drivers,
    ):
        assert list(restoring(project, keep_alive=drivers.act))[-1] == "StartStream"
        primary = project.store.replicas.live(CLICKS, Slot.PRIMARY)
        assert primary is not None
        assert ReplicaSpec.load(Path(primary.folder)).stream.app == MENDED["app"]


def test_so_it_does_if_another_launches_it_once_it_is_wanted_again(
    projects: SimulatedProjects,
) -> None:
    with declared_again(projects, **MENDED) as project, simulated_drivers(project):
        project.store.migrations.begin(
            stream=CLICKS,
            target={},
            tier="deployed",
            protocol=Protocol.LEGACY,
            within_seconds=60.0,
            may_differ=False,
            why="",
            run="",
        )
        for name in restoring(project):
            if name == "EndRestore":
                break
        primary = launch_primary(project, CLICKS)
        assert primary is not None
        assert ReplicaSpec.load(Path(primary.folder)).stream.app == MENDED["app"]
        assert project.store.migrations.open(CLICKS) is None


def test_one_that_was_finished_starts_by_what_was_mended_since(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        for name in restoring(project):
            if name == "EndRestore":
                break
        assert declared_app(project) != MENDED["app"]
    with (
        declared_again(projects, **MENDED) as project,
        simulated_drivers(project) as drivers,
    ):
        assert list(restoring(project, keep_alive=drivers.act)) == ["StartStream"]
        assert declared_app(project) == MENDED["app"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (ELSEWHERE, "sink"),
        ({"output_mode": "update"}, "output_mode"),
        ({"resources": {"spark_conf": {"spark.sql.shuffle.partitions": "7"}}}, "spark.sql.shuffle"),
    ],
)
def test_a_file_by_which_the_past_is_elsewhere_is_refused_before_anything_is_touched(
    projects: SimulatedProjects, change: dict[str, object], field: str
) -> None:
    a_table(str(projects.root / "elsewhere"))
    for epoch in range(8):
        a_commit(str(projects.root / "elsewhere"), epoch, words(1, first=epoch))
    with declared_again(projects, **change) as project:
        with pytest.raises(PermanentError, match=f"clicks cannot be restored: {field}") as refused:
            list(restoring(project))
        assert "undo that change" in refused.value.hint
        with pytest.raises(PermanentError, match=f"cannot be restored: {field}"):
            Restore(project, CLICKS, "plan", target=AT_5).plan()
        with pytest.raises(PermanentError, match=f"cannot be forked: {field}"):
            Fork(project, CLICKS, "run", target=AT_5, into="trial").steps()
        assert project.store.restores.of(CLICKS) == []
    with projects.open() as project:
        assert entries(project) == list(range(8))


def test_so_is_one_that_was_changed_when_the_restore_was_half_done(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        for name in restoring(project):
            if name == "MarkSnapshots":
                break
    with (
        declared_again(projects, **ELSEWHERE) as project,
        pytest.raises(PermanentError, match="cannot be restored: sink"),
    ):
        list(restoring(project))
    with declared_again(projects) as project:
        for name in restoring(project):
            if name == "EndRestore":
                break
        assert output(project) == entries(project) == [0, 1, 2, 3, 4, 5]
