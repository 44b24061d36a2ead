"""Reading epoch log, ledger, table and source, and what is left over: found, repaired, undone."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind, Severity
from holdfast.ft_policies.timings import DRILL_WITHIN_SECONDS
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.observation.doctor.leftovers import SWEEP_SECONDS
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.records import (
    EndedBy,
    EpochProposal,
    LedgerEntry,
    ReplicaState,
)
from holdfast.resources.control_store.schema import epochs, ledger, ledger_copies
from tests.builders.checkpoints import SyntheticCheckpoint
from tests.builders.control_rows import lose
from tests.builders.delta_tables import a_commit, a_table, words
from tests.builders.doctor_stream import (
    EPOCHS,
    REPLICA,
    RUN,
    a_stopped_stream,
    delete_epoch,
    doctor_projects,
    everything,
    finding_kinds,
    run_repair,
    shorten,
)
from tests.builders.projects import stream_yaml
from tests.builders.streams import CLICKS, a_heartbeat, a_primary
from tests.fakes.clocks import shift_clock
from tests.fakes.projects import SimulatedProject


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with doctor_projects(tmp_path / "project").open() as opened:
        yield opened


def test_a_hole_in_the_epoch_log_and_an_entry_that_were_not_decided_are_reported(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    delete_epoch(project.store, epochs, 2)
    findings = {finding.kind: finding for finding in diagnose_stream(project, CLICKS).findings}
    assert set(findings) == {Kind.HOLE_IN_EPOCH_LOG, Kind.ENTRY_WITHOUT_EPOCH}
    assert {finding.epochs for finding in findings.values()} == {(2,)}
    assert run_repair(project) == []


def test_an_epoch_that_only_the_table_has_is_entered_and_withdrawn(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    for table in (ledger_copies, ledger):
        delete_epoch(project.store, table, 2)
    before = everything(project)
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.severity) == (Kind.WRITTEN_NOT_ENTERED, Severity.CRITICAL)
    assert finding.epochs == (2,)
    assert run_repair(project) == ["EnterEpochs"]
    entry = project.store.ledger.get(CLICKS, 2)
    assert entry is not None
    assert (entry.rows, entry.digest) == (10, "d2")
    assert finding_kinds(project) == []
    Quarantine(project, CLICKS, RUN).undo()
    assert everything(project) == before


def forget_log(project: SimulatedProject) -> None:
    """Leave a checkpoint of the table and nothing before it."""
    path = project.config.table_path(CLICKS)
    table = DeltaTable(path)
    table.create_checkpoint()
    for old in (Path(path) / "_delta_log").glob("*.json"):
        if int(old.stem) < table.version():
            old.unlink()


def test_epochs_that_are_older_than_the_log_are_looked_for_in_the_files(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    forget_log(project)
    assert finding_kinds(project) == []
    path = project.config.table_path(CLICKS)
    shutil.rmtree(path)
    a_table(path)
    for epoch in (0, 1, 3, 4, 5):
        a_commit(path, epoch, words(10))
    forget_log(project)
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.epochs) == (Kind.ENTERED_NOT_WRITTEN, (2,))


def test_an_epoch_that_only_the_files_of_the_table_have_needs_a_restore(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    forget_log(project)
    for table in (ledger_copies, ledger):
        delete_epoch(project.store, table, 2)
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.epochs) == (Kind.WRITTEN_NOT_ENTERED, (2,))
    assert [advice.command for advice in finding.advice] == ["holdfast restore clicks --epoch 1"]
    list(Restore(project, CLICKS, RUN, target=RestoreTarget(epoch=1), why="").steps())
    assert finding_kinds(project) == []


def test_the_end_of_the_table_is_written_again_by_a_replay(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    path = project.config.table_path(CLICKS)
    shutil.rmtree(path)
    a_table(path)
    for epoch in range(3):
        a_commit(path, epoch, words(10))
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.epochs) == (Kind.ENTERED_NOT_WRITTEN, (3, 4, 5))
    assert run_repair(project) == ["SetAsideSnapshots"]
    assert [snapshot.epoch for snapshot in project.vault(CLICKS).list()] == [1]


def test_the_table_is_the_one_that_the_stream_runs_by_whatever_its_file_says_by_now(
    tmp_path: Path,
) -> None:
    projects = doctor_projects(tmp_path)
    with projects.open() as project:
        a_stopped_stream(project, tmp_path / "checkpoint")
        a_primary(project, REPLICA, alive=False)
        project.store.replicas.end(REPLICA, ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
        table = Path(project.config.table_path(CLICKS))
        staged = table / "data" / f"{6:012d}-{REPLICA}-0123abcd"
        staged.mkdir(parents=True)
        (staged / "file").write_text("left")
    edited = stream_yaml(name=CLICKS, sink={"kind": "delta", "path": "elsewhere"})
    (tmp_path / "configs" / "streams" / f"{CLICKS}.yaml").write_text(edited)
    with projects.open() as project:
        assert finding_kinds(project) == [Kind.LEFTOVER_STAGING]
        assert run_repair(project) == ["SetAsideLeftovers"]
        assert not staged.exists()
        assert finding_kinds(project) == []
        Quarantine(project, CLICKS, RUN).undo()
        assert staged.exists()


def test_a_hole_in_the_ledger_that_the_table_does_not_fill_is_reported(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    silent = EPOCHS  # an epoch without rows is not in the table
    for epoch in (silent, silent + 1):
        project.store.epochs.propose(
            EpochProposal(
                stream=CLICKS,
                epoch=epoch,
                start={},
                end={},
                input={},
                rows=0,
                token=1,
                proposer="r1",
            )
        )
    for epoch in (silent, silent + 1):
        project.store.ledger.commit(
            LedgerEntry(stream=CLICKS, epoch=epoch, replica="r1", token=1, rows=0, digest="0")
        )
    lose(project.store, ledger, silent, stream=CLICKS)
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.epochs) == (Kind.HOLE_IN_LEDGER, (silent,))
    (advice,) = finding.advice
    assert advice.command == f"holdfast restore {CLICKS} --epoch {silent - 1}"
    list(Restore(project, CLICKS, RUN, target=RestoreTarget(epoch=silent - 1), why="").steps())
    assert finding_kinds(project) == []


def test_an_epoch_that_the_table_lost_in_its_middle_is_mended_by_the_restore_that_is_advised(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    path = project.config.table_path(CLICKS)
    shutil.rmtree(path)
    a_table(path)
    for epoch in (0, 1, 2, 4, 5):
        a_commit(path, epoch, words(10))
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.epochs) == (Kind.ENTERED_NOT_WRITTEN, (3,))
    (advice,) = finding.advice
    assert advice.command == f"holdfast restore {CLICKS} --epoch 2"
    list(Restore(project, CLICKS, RUN, target=RestoreTarget(epoch=2), why="").steps())
    assert finding_kinds(project) == []
    assert project.store.ledger.last(CLICKS) == project.store.ledger.get(CLICKS, 2)


def test_staging_is_left_alone_while_its_replica_or_its_process_lives(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    data = Path(project.config.table_path(CLICKS)) / "data"
    (data / f"{6:012d}-{REPLICA}-0123abcd").mkdir()
    (data / f"{6:012d}-clicks-0000000b-0123abcd").mkdir()  # of an unknown replica
    a_primary(project, REPLICA)
    assert finding_kinds(project) == []
    project.store.replicas.end(REPLICA, ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
    assert finding_kinds(project) == []


def test_folders_that_are_not_needed_are_set_aside_and_put_back(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    a_primary(project, REPLICA, alive=False)
    project.store.replicas.end(REPLICA, ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    home = project.config.home
    staged = Path(project.config.table_path(CLICKS)) / "data" / f"{6:012d}-{REPLICA}-0123abcd"
    unknown = home / "replicas" / "clicks-0000000c" / "checkpoints"
    drill = home / "drills" / f"{CLICKS}-{RUN}"
    for folder in (staged, unknown, drill):
        folder.mkdir(parents=True)
        (folder / "file").write_text("left")
    assert finding_kinds(project) == [Kind.LEFTOVER_STAGING, Kind.LEFTOVER_FOLDER], (
        "a drill may run"
    )
    past = project.store.now() - DRILL_WITHIN_SECONDS - 60
    os.utime(drill, (past, past))
    before = everything(project)
    findings = diagnose_stream(project, CLICKS).findings
    assert [finding.where for finding in findings[1:]] == [str(unknown.parent), str(drill)]

    assert run_repair(project) == ["SetAsideLeftovers"]

    assert finding_kinds(project) == []
    assert not any(folder.exists() for folder in (staged, unknown, drill))
    Quarantine(project, CLICKS, RUN).undo()
    assert everything(project) == before


def test_what_the_last_start_should_have_swept_is_left_over(project: SimulatedProject) -> None:
    folder = project.config.home / "replicas" / REPLICA / "checkpoints"
    a_stopped_stream(project, folder / "aaaa0001")
    a_primary(project, REPLICA, alive=False)
    project.store.replicas.end(REPLICA, ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    assert finding_kinds(project) == [], "the next start sweeps it"
    a_primary(project, "clicks-0000000b")
    assert finding_kinds(project) == [], "it is being swept"
    shift_clock(project.store, SWEEP_SECONDS)
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.where) == (Kind.LEFTOVER_FOLDER, str(folder))


def test_input_that_is_gone_is_reported_and_only_if_a_recovery_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    source = {"kind": "files", "path": str(folder), "format": "jsonl", "schema": "n long"}
    with doctor_projects(tmp_path / "project", source=source).open() as project:
        for epoch in range(3):
            file = folder / f"{epoch}.jsonl"
            file.write_text(json.dumps({"n": epoch}))
            info = file.stat()
            named = {
                "name": file.name,
                "size": info.st_size,
                "changed_ns": info.st_mtime_ns,
                "rows": 1,
            }
            project.store.epochs.propose(
                EpochProposal(
                    stream=CLICKS,
                    epoch=epoch,
                    start={},
                    end={},
                    input={"files": [named]},
                    rows=1,
                    token=1,
                    proposer="r1",
                )
            )
        checkpoint = SyntheticCheckpoint(tmp_path / "checkpoint")
        assert finding_kinds(project) == []
        (folder / "1.jsonl").unlink()
        (finding,) = diagnose_stream(project, CLICKS).findings
        assert (finding.kind, finding.epochs) == (Kind.SOURCE_EXPIRED, (1,))
        assert "1.jsonl is gone from" in finding.evidence
        a_primary(project, REPLICA)
        assert diagnose_stream(project, CLICKS).findings[0].repairs == (), (
            "it replays, and is not past it"
        )
        a_heartbeat(project, REPLICA, epoch=1)
        (ship,) = diagnose_stream(project, CLICKS).findings[0].repairs
        assert ship.kind is RepairKind.SHIP_SNAPSHOT
        project.store.replicas.end(
            REPLICA, ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA
        )
        assert run_repair(project) == [], "nothing is given up unasked"
        assert run_repair(project, chosen=RepairKind.SKIP_INPUT) == ["SkipInput"]
        assert finding_kinds(project) == [Kind.INPUT_SKIPPED]
        Quarantine(project, CLICKS, RUN).undo()
        assert finding_kinds(project) == [Kind.SOURCE_EXPIRED]
        away = folder.rename(tmp_path / "not mounted")
        (project.config.home / "replicas" / "clicks-0000000c").mkdir(parents=True)
        findings = diagnose_stream(project, CLICKS).findings
        assert [finding.kind for finding in findings] == [Kind.SOURCE_AWAY, Kind.LEFTOVER_FOLDER]
        assert "the source cannot be checked" in findings[0].evidence
        assert run_repair(project) == ["SetAsideLeftovers"]
        away.rename(folder)
        checkpoint.commit(2)
        project.vault(CLICKS).ship(
            checkpoint.root,
            1,
            token=1,
            replica=REPLICA,
            parent=None,
            conf={},
            created_at=0.0,
            scratch=tmp_path / "scratch",
        )
        assert finding_kinds(project) == [Kind.MANIFEST_WITHOUT_ROW]
        shorten(folder / "2.jsonl")
        assert Kind.SOURCE_EXPIRED in finding_kinds(project)
