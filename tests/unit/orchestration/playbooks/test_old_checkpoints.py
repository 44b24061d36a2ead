"""What earlier replicas have left is dropped by the next, but for their logs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.orchestration.playbooks.launch import remove_old_checkpoints
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from tests.builders.streams import CLICKS, a_primary, a_secondary
from tests.fakes.projects import SimulatedProject, simulated_projects
from tests.waiting import wait_until


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with simulated_projects(tmp_path).open() as opened:
        yield opened


def left_by(project: SimulatedProject, replica: str) -> Path:
    """Its folder, with a checkpoint and a log in it."""
    folder = project.config.home / "replicas" / replica
    (folder / "checkpoints" / "state").mkdir(parents=True)
    (folder / "replica.log").write_text("what happened")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_checkpoints_of_those_that_have_ended_go_and_their_logs_stay(
    project: SimulatedProject,
) -> None:
    folder = left_by(project, "p1")
    a_primary(project, "p1", alive=False)
    project.store.replicas.end("p1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    assert remove_old_checkpoints(project.store, CLICKS) is not None
    wait_until(lambda: names(folder) == ["replica.log"])


def test_what_is_still_somebodys_stays(project: SimulatedProject) -> None:
    lingers, elsewhere, lives = (left_by(project, replica) for replica in ("p1", "s1", "p2"))
    a_primary(project, "p1")  # its process is there still
    project.store.replicas.end("p1", ReplicaState.HANDED_OVER, "to another", by=EndedBy.REPLICA)
    a_secondary(project, "s1", host="elsewhere")
    project.store.replicas.end("s1", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
    a_primary(project, "p2", alive=False)  # not noticed yet
    assert remove_old_checkpoints(project.store, CLICKS) is None
    assert names(lingers) == names(elsewhere) == names(lives) == ["checkpoints", "replica.log"]
