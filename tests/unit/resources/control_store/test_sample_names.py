"""The names of samples are written once, and stay what the control store has."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources.control_store.sample_names import SampleName
from holdfast.streaming.metrics import PHASE_NAMES, SECONDARY_NAMES

REPOSITORY = next(up for up in Path(__file__).parents if (up / "pyproject.toml").exists())
FOLDERS = (
    "ft_policies",
    "configs",
    "resources",
    "streaming",
    "assets",
    "orchestration",
    "benchmarks",
)
HOME = "sample_names.py"
OTHER_MEANINGS = {
    SampleName.STATE_BYTES,  # a field of loads and a column of traces
    SampleName.CPU_CORES,  # a field of usages
    SampleName.COMMIT_SECONDS,  # a field of loads
    SampleName.DEAD_LETTERS,  # a section of a declared source, and a table
    SampleName.DETECT_SECONDS,  # a key of an incident's detail
    SampleName.RECOVERY_SECONDS,  # the same
    SampleName.INPUT_AWAY,  # the kind of an incident
}


def literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_other_module_spells_the_name_of_a_sample(folder: str) -> None:
    names = set(SampleName) - OTHER_MEANINGS
    modules = [path for path in (REPOSITORY / folder).rglob("*.py") if path.name != HOME]
    assert modules
    spelled = {
        f"{path.relative_to(REPOSITORY)}: {text}"
        for path in modules
        for text in literals(ast.parse(path.read_text()))
        if text in names
    }
    assert spelled == set()


def test_a_phase_of_a_batch_is_stored_under_the_name_that_spark_gives_it() -> None:
    for phase, name in PHASE_NAMES.items():
        assert name == f"batch_{phase}_seconds"


def test_the_use_of_a_secondary_is_stored_under_a_name_of_its_own() -> None:
    for name, secondary_name in SECONDARY_NAMES.items():
        assert secondary_name == f"secondary_{name}"


def test_the_stored_names_of_recovery_steps_do_not_change() -> None:
    assert {name for name in SampleName if name.startswith("t_")} == {
        "t_detect_seconds",
        "t_deploy_seconds",
        "t_rehearse_seconds",
        "t_read_snapshot_seconds",
        "t_wire_receive_seconds",
        "t_wire_send_seconds",
        "t_replay_seconds",
        "t_first_commit_seconds",
        "t_commit_pause_seconds",
    }


def test_every_name_ends_in_its_unit_or_counts_something() -> None:
    counts = {
        SampleName.DEAD_LETTERS,
        SampleName.INPUT_AWAY,
        SampleName.REPLAY_FLOOR,
        SampleName.SYNC_REQUESTS,
        SampleName.TABLE_FILES,
    }
    units = ("_seconds", "_bytes", "_rows", "_cores", "_per_second")
    assert all(name.endswith(units) for name in set(SampleName) - counts)
