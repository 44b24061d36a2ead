"""The files around the code: what they promise to people and to CI."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.order import LONGEST_FIRST

REPOSITORY = Path(__file__).parents[2]


def run(*command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def a_java(home: Path, version: str) -> Path:
    """A home whose `java -version` answers as the real one does."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    java.chmod(0o755)
    return home


@pytest.mark.parametrize("version", ["17.0.12", "21", "25-ea"])
def test_a_java_home_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    home = a_java(tmp_path / "java", version)
    assert run("scripts/find-java", JAVA_HOME=str(home)).stdout.strip() == str(home)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    home = a_java(tmp_path / "java", version)
    found = run("scripts/find-java", JAVA_HOME=str(home))
    assert found.stdout.strip() != str(home)
    assert found.stdout.strip() or "apt-get install" in found.stderr


def test_the_commands_are_listed_without_installing_anything() -> None:
    listed = run("make", "help").stdout
    for command in ("lint", "unit", "integration", "e2e", "test", "demo", "bench"):
        assert f"make {command} " in listed


def test_ci_runs_what_people_run() -> None:
    assert "make test" in (REPOSITORY / ".ci" / "run").read_text()
    assert (REPOSITORY / ".ci" / "run").stat().st_mode & 0o111


def test_the_files_that_run_first_are_there() -> None:
    assert [file for file in LONGEST_FIRST if not (REPOSITORY / file).is_file()] == []


def test_constraints_are_versions_only_and_cover_what_is_declared() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in pinned)
    names = {_canonical(line.partition("==")[0]) for line in pinned}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert {_canonical(re.split(r"[\[<>=~]", one)[0]) for one in declared} <= names


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_dagster_loads_one_module() -> None:
    workspace = yaml.safe_load((REPOSITORY / "workspace.yaml").read_text())
    [location] = workspace["load_from"]
    assert location["python_module"]["module_name"] == "holdfast.orchestration.definitions"
