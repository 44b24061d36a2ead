"""The wheel in an environment of its own, used from a project whose packages are named as Holdfast's folders are."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.resources.service import find_free_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
REPOSITORY = Path(__file__).parents[2]
BIN = "bin"
THRESHOLD = 0.5
READINGS = [{"id": number, "value": number % 10 / 10} for number in range(3000)]
TRAP = 'raise ImportError(f"{__name__} is the user\'s own package, Holdfast must not import it")\n'
APPLICATION = (
    "from apps import thresholds\n"
    "def build(df, params):\n"
    '    return thresholds.keep_high(df, params["threshold"])\n'
)
STREAM = """
name: alerts
app: apps.alerts:build
params: {threshold: 0.5}
source: {kind: files, path: data/readings, format: jsonl, schema: "id bigint, value double"}
sink: {kind: delta}
objective: {recovery_time: 120s}
tier: passive_replication
"""


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command; what it prints on standard output."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def copy_repository(folder: Path) -> Path:
    """A copy to build from: what an earlier build has left in the repository does not get into the wheel."""
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".holdfast", "build", "*.egg-info", ".*_cache"
    )
    copy = folder / "repository"
    shutil.copytree(REPOSITORY, copy, symlinks=True, ignore=ignored)
    return copy


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with the wheel and its dependencies, and nothing of this repository."""
    folder = tmp_path / "environment"
    wheels = tmp_path / "wheels"
    venv.create(folder, with_pip=False)
    uv = (sys.executable, "-m", "uv")
    run(*uv, "build", "--wheel", "--out-dir", wheels, copy_repository(tmp_path), cwd=tmp_path)
    (wheel,) = wheels.glob("*.whl")
    constraints = REPOSITORY / "constraints.txt"
    run(*uv, "pip", "install", "--python", folder, "-c", constraints, wheel, cwd=tmp_path)
    share_bytecode(folder)
    return folder


def share_bytecode(environment: Path) -> None:
    """Take the dependencies as they are compiled here; Python compares each with its source before it uses it."""
    ours = Path(sysconfig.get_path("purelib"))
    (theirs,) = environment.glob("lib/python*/site-packages")
    for cache in ours.rglob("__pycache__"):
        place = theirs / cache.relative_to(ours)
        if place.parent.is_dir() and place.relative_to(theirs).parts[0] != "holdfast":
            shutil.copytree(cache, place, copy_function=link_or_copy, dirs_exist_ok=True)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an application of its own, and packages that must not be taken for Holdfast's."""
    root = tmp_path / "project"
    for name in ("assets", "resources", "configs", "streaming", "orchestration", "ft_policies"):
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text(TRAP)
    (root / "apps").mkdir()
    (root / "apps/__init__.py").write_text("")
    (root / "apps/thresholds.py").write_text(
        'def keep_high(df, threshold):\n    return df.where(df["value"] >= threshold)\n'
    )
    (root / "apps/alerts.py").write_text(APPLICATION)
    (root / "configs/streams").mkdir()
    (root / "configs/streams/alerts.yaml").write_text(STREAM)
    (root / "data/readings").mkdir(parents=True)
    for part in range(3):
        rows = READINGS[part::3]
        (root / f"data/readings/{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root


def user_environment() -> dict[str, str]:
    """The environment variables of a user, without the path to this repository."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture
def holdfast(environment: Path, project: Path) -> Iterator[Path]:
    """The installed command; its processes are stopped in the end."""
    command = environment / BIN / "holdfast"
    yield command
    run(command, "down", cwd=project, environment=user_environment())


def output_ids(project: Path) -> list[int]:
    """The ids in the output table; none while there is no table."""
    table = project / ".holdfast/tables/alerts"
    if not DeltaTable.is_deltatable(str(table)):
        return []
    return sorted(DeltaTable(str(table)).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def test_a_stream_runs_from_the_wheel_beside_packages_with_the_names_of_our_folders(
    holdfast: Path, project: Path
) -> None:
    expected = [row["id"] for row in READINGS if row["value"] >= THRESHOLD]

    run(holdfast, "check", cwd=project, environment=user_environment())
    run(
        holdfast, "up", "--port", str(find_free_port()), cwd=project, environment=user_environment()
    )

    wait_until(
        lambda: output_ids(project) == expected,
        within_seconds=240,
        every_seconds=0.5,
        story=lambda: output_ids(project)[-5:],
    )
    status = json.loads(
        run(holdfast, "status", "--json", cwd=project, environment=user_environment())
    )
    assert "alerts" in json.dumps(status)
