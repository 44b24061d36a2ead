"""The lag of a stream, read from outside a driver, and what its primary has recorded of it."""

import json
import os
import threading
from pathlib import Path

import pytest

from holdfast.ft_policies.health import Health
from holdfast.observation import lag
from holdfast.observation.lag import OBSERVER, current_lag, read_lag
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.control_store.records import (
    EpochProposal,
    LedgerEntry,
    Sample,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project, open_project
from holdfast.streaming.sources.lag import Lag
from tests.builders.calls import count_calls
from tests.builders.projects import a_project, stream_yaml
from tests.builders.streams import CLICKS, a_heartbeat, a_primary, a_wanted_stream
from tests.fakes.projects import simulated_projects
from tests.waiting import wait_until

ROWS = 50


def a_stream_of_files(root: Path) -> Path:
    """A project whose stream reads files of 50 equal rows."""
    source = {"kind": "files", "path": "input", "format": "jsonl", "schema": "id bigint"}
    (root / "input").mkdir()
    return a_project(root, clicks=stream_yaml(source=source))


def a_file(root: Path, number: int, *, changed_at: float) -> Path:
    file = root / "input" / f"{number:03}.jsonl"
    file.write_text(f"{json.dumps({'id': 1})}\n" * ROWS)
    os.utime(file, (changed_at, changed_at))
    return file


def decide(project: Project, epoch: int, file: Path, **notes: int) -> None:
    info = file.stat()
    assigned = {
        "name": file.name, "size": info.st_size, "changed_ns": info.st_mtime_ns, "rows": ROWS
    }  # fmt: skip
    project.store.epochs.propose(
        EpochProposal(
            stream=CLICKS,
            epoch=epoch,
            start={"files": epoch},
            end={"files": epoch + 1, **notes},
            input={"files": [assigned]},
            rows=ROWS,
            token=1,
            proposer="r1",
        )
    )


def test_files_that_no_epoch_has_count_from_when_they_arrived(tmp_path: Path) -> None:
    """No driver lives: one epoch is committed, one is decided, and two files wait."""
    with open_project(a_stream_of_files(tmp_path)) as project:
        declare(project.config, project.store, CLICKS)
        assert read_lag(project, CLICKS) == Lag(rows=0, seconds=0.0)
        now = project.store.now()
        files = [a_file(tmp_path, n, changed_at=now - 100 + 10 * n) for n in range(4)]
        for epoch in range(2):
            decide(project, epoch, files[epoch])
        project.store.ledger.commit(
            LedgerEntry(stream=CLICKS, epoch=0, replica="r1", token=1, rows=1, digest="d")
        )
        measured = read_lag(project, CLICKS)
        assert measured is not None
        assert measured.rows == 3 * ROWS
        assert 90 <= measured.seconds < 120

        project.store.ledger.commit(
            LedgerEntry(stream=CLICKS, epoch=1, replica="r1", token=1, rows=1, digest="d")
        )
        measured = read_lag(project, CLICKS)
        assert measured is not None
        assert measured.rows == 2 * ROWS
        assert 80 <= measured.seconds < 110


def test_for_the_lag_the_index_is_not_asked_for_files_that_were_taken_long_ago(
    tmp_path: Path,
) -> None:
    with open_project(a_stream_of_files(tmp_path)) as project:
        declare(project.config, project.store, CLICKS)
        for number in range(3):
            file = a_file(tmp_path, number, changed_at=1e9)
            decide(project, number, file, taken_until_ns=2**62)
        calls = count_calls(lambda: read_lag(project, CLICKS))
        assert (calls["measure_lag"], calls["named"]) == (1, 0)


def test_the_lag_of_a_source_that_is_away_is_unknown(tmp_path: Path) -> None:
    with open_project(a_stream_of_files(tmp_path)) as project:
        (tmp_path / "input").rmdir()
        assert read_lag(project, CLICKS) is None


def test_a_source_that_never_answers_holds_up_its_reader_once_and_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system whose server is away blocks the process that lists it, for as long as that lasts."""
    answers, listings = threading.Event(), list[str]()

    def measure(*_: object, **__: object) -> Lag:
        listings.append("begun")
        answers.wait(30.0)
        return Lag(rows=7, seconds=7.0)

    with open_project(a_stream_of_files(tmp_path)) as project:
        monkeypatch.setattr(lag, "measure_lag", measure)
        assert [read_lag(project, CLICKS, within_seconds=0.01) for _ in range(3)] == [None] * 3
        assert listings == ["begun"], "one reader is enough"
        answers.set()
        wait_until(lambda: read_lag(project, CLICKS) == Lag(rows=7, seconds=7.0))


def record(project: Project, replica: str, seconds: list[float], *, every: float = 5.0) -> None:
    """What a primary writes while its lag is like this, the last of it now."""
    now = project.store.now()
    project.store.samples.write(
        [
            Sample(stream=CLICKS, replica=replica, name=name, value=value, at=now - every * back)
            for back, lag in enumerate(reversed(seconds))
            for name, value in (
                (SampleName.LAG_SECONDS, lag),
                (SampleName.LAG_ROWS, 100.0 * lag),
            )
        ]
    )


def test_a_primary_whose_lag_grows_makes_its_stream_lagging(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_primary(project, "p2")
        a_heartbeat(project, "p2", epoch=9)
        assert observe_stream(project, CLICKS).verdict.health is Health.HEALTHY
        record(project, "p1", [100.0 + number for number in range(20)])
        assert observe_stream(project, CLICKS).verdict.health is Health.HEALTHY
        record(project, "p2", [100.0 + number for number in range(20)])
        status = observe_stream(project, CLICKS)
        assert status.verdict.health is Health.LAGGING
        assert status.verdict.reason == "p2 is 119 s behind its input and does not catch up"
        assert status.is_settled
        assert current_lag(project, CLICKS, status.primary) == Lag(rows=11_900, seconds=119.0)


def test_a_lag_that_the_observer_has_measured_recently_is_not_measured_again(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        record(project, "another", [9.0])
        assert current_lag(project, CLICKS, None) == Lag(rows=0, seconds=0.0)
        record(project, OBSERVER, [50.0])
        assert current_lag(project, CLICKS, None) == Lag(rows=5_000, seconds=50.0)
