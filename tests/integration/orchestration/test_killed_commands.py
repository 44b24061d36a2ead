"""A command whose process is killed with -9 at a step, and given again, comes to the same end."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.observation.doctor.snapshots import packs_prefix
from holdfast.resources.control_store.records import Phase
from holdfast.resources.project import Project, open_project
from tests.builders.recorded_stream import STREAM, a_restorable_project, entries, output, snapshots
from tests.cli import run_holdfast

pytestmark = pytest.mark.integration
REPO = Path(__file__).parents[3]
FORK = "trial"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with a_restorable_project(tmp_path / "project") as opened:
        yield opened


def require_restored(project: Project) -> None:
    assert output(project) == entries(project) == [0, 1, 2, 3, 4, 5]
    assert snapshots(project) == [4, 1]
    assert len(project.store.restores.of(STREAM)) == 1


def require_forked(project: Project) -> None:
    with open_project(project.config.root) as again:
        assert output(again, FORK) == entries(again, FORK) == [0, 1, 2, 3, 4, 5]
        assert snapshots(again, FORK) == [4]
    assert output(project) == entries(project) == list(range(8))
    assert snapshots(project) == [6, 4, 1]


def lose_a_pack(project: Project) -> None:
    objects = project.object_store()
    objects.delete([pack.key for pack in objects.list(packs_prefix(STREAM))][-1:])


def require_repaired(project: Project) -> None:
    assert snapshots(project) == [4, 1]
    assert [row.epoch for row in project.store.snapshots.of(STREAM)] == [4, 1]
    assert output(project) == entries(project) == list(range(8))


@dataclass(frozen=True)
class Command:
    """What is asked for, what must come of it, and its steps."""

    arguments: tuple[str, ...]
    steps: tuple[str, ...]
    demand: Callable[[Project], None]
    before: Callable[[Project], None] = lambda _: None


COMMANDS = {
    "restore": Command(
        ("restore", STREAM, "--epoch", "5", "--yes"),
        ("RollOutput", "BeginHistory", "MarkSnapshots", "EndRestore"),
        require_restored,
    ),
    "fork": Command(
        ("restore", STREAM, "--epoch", "5", "--as", FORK, "--yes"),
        ("CopyOutput", "CopySnapshot", "CopyEpochs", "WriteDeclaration"),
        require_forked,
    ),
    "repair": Command(
        ("doctor", STREAM, "--repair", "all", "--yes"),
        ("SetAsideSnapshots", "EnterSnapshots"),
        require_repaired,
        before=lose_a_pack,
    ),
}


def moments() -> Iterator[object]:
    """Each step of each command, before and after it; one of each command also where there is little time."""
    for name, command in COMMANDS.items():
        for step in command.steps:
            for phase in (Phase.INTENT, Phase.DONE):
                soon = step == command.steps[0] and phase is Phase.INTENT
                marks = () if soon else pytest.mark.slow
                yield pytest.param(name, step, phase, id=f"{name}-{step}-{phase}", marks=marks)


@pytest.mark.parametrize(("name", "step", "phase"), [*moments()])
def test_a_command_that_is_killed_at_a_step_is_finished_by_the_next(
    project: Project, name: str, step: str, phase: Phase
) -> None:
    command, root = COMMANDS[name], project.config.root
    command.before(project)
    dying = [sys.executable, "-m", "tests.live.dying_command", step, phase.value]
    dead = subprocess.run(
        [*dying, "--project", str(root), *command.arguments],
        cwd=REPO, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert dead.returncode == -signal.SIGKILL, dead.stdout + dead.stderr
    finished = run_holdfast(root, *command.arguments)
    # A fork whose declaration is written is there, and its name is taken.
    done = name == "fork" and (step, phase) == ("WriteDeclaration", Phase.DONE)
    assert finished.exit_code == (1 if done else 0), finished.output
    command.demand(project)
