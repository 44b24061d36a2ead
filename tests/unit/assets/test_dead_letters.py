"""The check on dead letters: few are allowed, many are not, and the reasons are shown."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from holdfast.assets.dead_letters import checks, judge
from holdfast.streaming.sinks.delta.table import DEAD_LETTERS
from tests.builders.control_rows import a_proposal
from tests.builders.projects import a_declaration
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProjects, simulated_projects

FILES = {"kind": "files", "path": "in", "format": "jsonl", "schema": "id bigint"}


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, source={**FILES, "dead_letters": {"most": 0.02}})


def decide(projects: SimulatedProjects, *epochs: tuple[int, int]) -> None:
    """Epochs as (rows, records set aside)."""
    with projects.open() as project:
        for number, (rows, aside) in enumerate(epochs):
            files = {"files": [{"name": f"{number}.jsonl", "size": 1, "aside": list(range(aside))}]}
            proposal = replace(a_proposal(number, stream=CLICKS), rows=rows, input=files)
            project.store.epochs.propose(proposal)


def test_only_streams_that_set_records_aside_have_it() -> None:
    assert checks(a_declaration(source=FILES)) == []
    assert len(checks(a_declaration(source={**FILES, "dead_letters": {}}))) == 1


def test_a_stream_without_any_passes(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        assert judge(project, CLICKS, 0.02).passed


def test_the_share_of_all_records_is_what_counts(projects: SimulatedProjects) -> None:
    decide(projects, (97, 1), (97, 2), (3, 0))
    with projects.open() as project:
        result = judge(project, CLICKS, 0.015)
        assert result.passed
        assert result.description == "3 of 200 records were set aside (1.50%, allowed 1.50%)"
        assert not judge(project, CLICKS, 0.0149).passed


def test_the_commonest_reasons_are_shown(projects: SimulatedProjects) -> None:
    decide(projects, (10, 3))
    with projects.open() as project:
        path = project.config.dead_letters_path(CLICKS)
        assert path is not None
        reasons = ["Expected 3 columns, got 1: x", "Expected 3 columns, got 2: y", "no time"]
        rows = [
            {"epoch": 0, "file": "a", "position": at, "reason": reason, "record": ""}
            for at, reason in enumerate(reasons)
        ]
        write_deltalake(path, pa.Table.from_pylist(rows, schema=DEAD_LETTERS))
        shown = judge(project, CLICKS, 0.5).metadata["reasons"].value
    assert shown == {"Expected …": 2, "no time": 1}
