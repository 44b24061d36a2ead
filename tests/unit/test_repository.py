"""The files around the code: what they promise to users and to CI."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from holdfast.resources.control_store.schema import HEAD
from tests.order import LONGEST_FIRST

REPOSITORY = Path(__file__).parents[2]
OF_ONE_KIND = ("commands", "demo", "versions")
"""Rooms whose modules are not named one by one."""


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
    result = run("scripts/find-java", JAVA_HOME=str(home))
    assert result.stdout.strip() != str(home)
    assert result.stdout.strip() or "apt-get install" in result.stderr


def test_the_commands_are_listed_without_installing_anything() -> None:
    listed = run("make", "help").stdout
    for command in ("lint", "unit", "integration", "e2e", "test", "demo", "bench"):
        assert f"make {command} " in listed


def test_ci_runs_what_developers_run() -> None:
    assert "make test" in (REPOSITORY / ".ci" / "run").read_text()
    assert (REPOSITORY / ".ci" / "run").stat().st_mode & 0o111


def test_the_files_that_run_first_are_there() -> None:
    assert [file for file in LONGEST_FIRST if not (REPOSITORY / file).is_file()] == []


def test_a_project_of_the_present_schema_is_kept() -> None:
    archive = REPOSITORY / "tests" / "kept_projects" / f"{HEAD}.tar.gz"
    assert archive.is_file(), "make it: python -m tests.live.kept_project FILE"


def test_the_map_of_the_code_names_every_module() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text().partition("## The tree")[2]
    tree = text.split("```")[1]
    floors = {block.partition("/")[0]: block for block in tree.strip().split("\n\n")}
    for floor in set(floors) - {"tests"}:
        paths = [
            path.relative_to(REPOSITORY / floor) for path in Path(REPOSITORY, floor).rglob("*.py")
        ]
        names = {path.stem for path in paths if path.parent.name not in OF_ONE_KIND}
        assert names - {"__init__"} <= set(re.findall(r"\w+", floors[floor])), floor


def test_every_part_of_orchestration_that_dagster_does_not_run_is_without_dagster() -> None:
    linter = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    [contract] = [
        each for each in linter["contracts"] if each.get("forbidden_modules") == ["dagster"]
    ]
    runs = {"definitions", "schedules", "sensors", "jobs", "services", "__init__", "__pycache__"}
    parts = {path.stem for path in (REPOSITORY / "orchestration").iterdir()} - runs
    assert {f"holdfast.orchestration.{part}" for part in parts} <= set(contract["source_modules"])


def test_constraints_are_versions_only_and_cover_what_is_declared() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in pinned)
    names = {_canonical(line.partition("==")[0]) for line in pinned}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert {_canonical(re.split(r"[\[<>=~]", requirement)[0]) for requirement in declared} <= names


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_dagster_loads_one_module() -> None:
    workspace = yaml.safe_load((REPOSITORY / "workspace.yaml").read_text())
    [location] = workspace["load_from"]
    assert location["python_module"]["module_name"] == "holdfast.orchestration.definitions"


def an_audit(root: Path, answer: str) -> Path:
    """The script beside a `pip-audit` that answers as the real one does, and counts its calls."""
    programs = root / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (root / "constraints.txt").write_text("a==1\n")
    os.utime(root / "constraints.txt", (1.0, 1.0))
    (root / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "audit-packages", root / "scripts")
    uv = programs / "uv"
    uv.write_text(f"#!/bin/sh\necho 1 >> calls\n{answer}\n")
    uv.chmod(0o755)
    return root / "scripts" / "audit-packages"


def packages(**vulnerabilities: object) -> str:
    compared = {"dependencies": [{"name": "a", "version": "1", **vulnerabilities}]}
    return f"echo '{json.dumps(compared)}'"


def test_lint_audits_the_packages_once_a_day_and_after_a_change(tmp_path: Path) -> None:
    audit, says = str(an_audit(tmp_path, packages(vulns=[]))), "1 of 1 packages compared, 0 with"
    assert says in run(audit, "--daily").stdout
    again = run(audit, "--daily")
    assert (again.returncode, again.stdout) == (0, "")
    os.utime(tmp_path / ".venv" / ".audited", (2.0, 2.0))
    assert says in run(audit, "--daily").stdout
    os.utime(tmp_path / "constraints.txt")
    assert says in run(audit, "--daily").stdout
    assert says in run(audit).stdout
    assert (tmp_path / "calls").read_text().count("1") == 4


@pytest.mark.parametrize("answer", [packages(skip_reason="not found"), "exit 1", "exec sleep 600"])
def test_an_audit_that_compared_nothing_is_no_audit_of_the_day(tmp_path: Path, answer: str) -> None:
    audit = str(an_audit(tmp_path, answer))
    for _ in range(2):
        done = run(audit, "--daily", AUDIT_SECONDS="1")
        assert (done.returncode, done.stdout[:13]) == (0, "audit skipped")
    assert (tmp_path / "calls").read_text().count("1") == 2
    assert not (tmp_path / ".venv" / ".audited").exists()


def test_lint_stays_red_while_a_package_is_vulnerable(tmp_path: Path) -> None:
    audit = str(an_audit(tmp_path, packages(vulns=[{"id": "CVE-1"}]) + "; exit 1"))
    for _ in range(2):
        result = run(audit, "--daily")
        assert (result.returncode, result.stdout.splitlines()[0]) == (1, "a 1: CVE-1")


def test_lint_audits_the_packages() -> None:
    assert "scripts/audit-packages --daily" in run("make", "-n", "lint").stdout


def test_the_docs_name_steps_that_exist() -> None:
    playbooks = REPOSITORY / "ft_policies" / "playbooks"
    code = "\n".join(file.read_text() for file in playbooks.rglob("*.py"))
    steps = set(re.findall(r'name: ClassVar = "(\w+)"', code))
    docs = (REPOSITORY / "docs" / "playbooks.md").read_text()
    named = set(re.findall(r"`((?:[A-Z][a-z]+)+)`", docs))
    assert len(named) > 20
    assert named - steps == set()
