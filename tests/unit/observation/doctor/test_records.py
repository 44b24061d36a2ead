"""Reading epoch log, ledger, table and source, and what is left over: found, mended, taken back."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind, Severity
from holdfast.ft_policies.timings import DRILL_WITHIN_SECONDS
from holdfast.observation.doctor import leftovers
from holdfast.observation.doctor.examine import diagnosed
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
from tests.fakes.checkpoints import SyntheticCheckpoint
from tests.fakes.declared import written
from tests.fakes.worlds import CLICKS, SimulatedWorld, a_heartbeat, a_primary
from tests.support.control_builders import wait_for_the_clock
from tests.support.delta_tables import a_commit, a_table, words
from tests.support.patients import (
    EPOCHS,
    REPLICA,
    RUN,
    a_patient,
    delete_epoch,
    everything,
    kinds,
    patients,
    repaired,
    shorten,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr("holdfast.observation.doctor.examine.AGAIN_SECONDS", 0.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimulatedWorld]:
    with patients(tmp_path / "project").open() as opened:
        yield opened


def test_a_hole_in_the_epoch_log_and_an_entry_that_nobody_decided_are_told(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    a_patient(world, tmp_path / "checkpoint")
    delete_epoch(world.store, epochs, 2)
    found = {one.kind: one for one in diagnosed(world, CLICKS).findings}
    assert set(found) == {Kind.HOLE_IN_EPOCH_LOG, Kind.ENTRY_WITHOUT_EPOCH}
    assert {one.epochs for one in found.values()} == {(2,)}
    assert repaired(world) == []


def test_an_epoch_that_only_the_table_has_is_entered_and_withdrawn(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    a_patient(world, tmp_path / "checkpoint")
    for table in (ledger_copies, ledger):
        delete_epoch(world.store, table, 2)
    before = everything(world)
    (found,) = diagnosed(world, CLICKS).findings
    assert (found.kind, found.severity) == (Kind.WRITTEN_NOT_ENTERED, Severity.CRITICAL)
    assert found.epochs == (2,)
    assert repaired(world) == ["EnterEpochs"]
    entry = world.store.ledger.get(CLICKS, 2)
    assert entry is not None
    assert (entry.rows, entry.digest) == (10, "d2")
    assert kinds(world) == []
    Quarantine(world, CLICKS, RUN).undo()
    assert everything(world) == before


def test_the_end_of_the_table_is_written_again_by_a_replay(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    a_patient(world, tmp_path / "checkpoint")
    path = world.config.table_path(CLICKS)
    shutil.rmtree(path)
    a_table(path)
    for epoch in range(3):
        a_commit(path, epoch, words(10))
    (found,) = diagnosed(world, CLICKS).findings
    assert (found.kind, found.epochs) == (Kind.ENTERED_NOT_WRITTEN, (3, 4, 5))
    assert repaired(world) == ["SetAsideSnapshots"]
    assert [one.epoch for one in world.vault(CLICKS).list()] == [1]


def test_the_table_is_the_one_that_the_stream_runs_by_whatever_its_file_says_by_now(
    tmp_path: Path,
) -> None:
    worlds = patients(tmp_path)
    with worlds.open() as world:
        a_patient(world, tmp_path / "checkpoint")
        a_primary(world, REPLICA, alive=False)
        world.store.replicas.end(REPLICA, ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
        table = Path(world.config.table_path(CLICKS))
        staged = table / "data" / f"{6:012d}-{REPLICA}-0123abcd"
        staged.mkdir(parents=True)
        (staged / "file").write_text("left")
    edited = written(name=CLICKS, sink={"kind": "delta", "path": "elsewhere"})
    (tmp_path / "configs" / "streams" / f"{CLICKS}.yaml").write_text(edited)
    with worlds.open() as world:
        assert kinds(world) == [Kind.LEFTOVER_STAGING]
        assert repaired(world) == ["SetAsideLeftovers"]
        assert not staged.exists()
        assert kinds(world) == []
        Quarantine(world, CLICKS, RUN).undo()
        assert staged.exists()


def test_a_hole_in_the_ledger_that_the_table_does_not_fill_is_told(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    a_patient(world, tmp_path / "checkpoint")
    silent = EPOCHS  # an epoch without rows is not in the table
    for epoch in (silent, silent + 1):
        world.store.epochs.propose(
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
    world.store.ledger.commit(
        LedgerEntry(stream=CLICKS, epoch=silent + 1, replica="r1", token=1, rows=0, digest="0")
    )
    (found,) = diagnosed(world, CLICKS).findings
    assert (found.kind, found.epochs) == (Kind.HOLE_IN_LEDGER, (silent,))
    (advice,) = found.advice
    assert advice.command == f"holdfast restore {CLICKS} --epoch {silent - 1}"
    list(Restore(world, CLICKS, RUN, target=RestoreTarget(epoch=silent - 1), why="").steps())
    assert kinds(world) == []


def test_an_epoch_that_the_table_lost_in_its_middle_is_mended_by_the_restore_that_is_advised(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    a_patient(world, tmp_path / "checkpoint")
    path = world.config.table_path(CLICKS)
    shutil.rmtree(path)
    a_table(path)
    for epoch in (0, 1, 2, 4, 5):
        a_commit(path, epoch, words(10))
    (found,) = diagnosed(world, CLICKS).findings
    assert (found.kind, found.epochs) == (Kind.ENTERED_NOT_WRITTEN, (3,))
    (advice,) = found.advice
    assert advice.command == f"holdfast restore {CLICKS} --epoch 2"
    list(Restore(world, CLICKS, RUN, target=RestoreTarget(epoch=2), why="").steps())
    assert kinds(world) == []
    assert world.store.ledger.last(CLICKS) == world.store.ledger.get(CLICKS, 2)


def test_staging_is_left_alone_while_its_replica_or_its_process_lives(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    a_patient(world, tmp_path / "checkpoint")
    data = Path(world.config.table_path(CLICKS)) / "data"
    (data / f"{6:012d}-{REPLICA}-0123abcd").mkdir()
    (data / f"{6:012d}-clicks-0000000b-0123abcd").mkdir()  # of nobody that is known
    a_primary(world, REPLICA)
    assert kinds(world) == []
    world.store.replicas.end(REPLICA, ReplicaState.STOPPED, "told to stop", by=EndedBy.REPLICA)
    assert kinds(world) == []


def test_folders_that_nobody_needs_are_set_aside_and_put_back(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    a_patient(world, tmp_path / "checkpoint")
    a_primary(world, REPLICA, alive=False)
    world.store.replicas.end(REPLICA, ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    home = world.config.home
    staged = Path(world.config.table_path(CLICKS)) / "data" / f"{6:012d}-{REPLICA}-0123abcd"
    unknown = home / "replicas" / "clicks-0000000c" / "checkpoints"
    drill = home / "drills" / f"{CLICKS}-{RUN}"
    for folder in (staged, unknown, drill):
        folder.mkdir(parents=True)
        (folder / "file").write_text("left")
    assert kinds(world) == [Kind.LEFTOVER_STAGING, Kind.LEFTOVER_FOLDER], "a drill may run"
    past = world.store.now() - DRILL_WITHIN_SECONDS - 60
    os.utime(drill, (past, past))
    before = everything(world)
    found = diagnosed(world, CLICKS).findings
    assert [one.where for one in found[1:]] == [str(unknown.parent), str(drill)]

    assert repaired(world) == ["SetAsideLeftovers"]

    assert kinds(world) == []
    assert not any(folder.exists() for folder in (staged, unknown, drill))
    Quarantine(world, CLICKS, RUN).undo()
    assert everything(world) == before


def test_what_the_last_start_should_have_swept_is_left_over(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = world.config.home / "replicas" / REPLICA / "checkpoints"
    a_patient(world, folder / "aaaa0001")
    a_primary(world, REPLICA, alive=False)
    world.store.replicas.end(REPLICA, ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    assert kinds(world) == [], "the next start sweeps it"
    wait_for_the_clock(world.store)
    a_primary(world, "clicks-0000000b")
    assert kinds(world) == [], "it is being swept"
    monkeypatch.setattr(leftovers, "SWEEP_SECONDS", 0.0)
    (found,) = diagnosed(world, CLICKS).findings
    assert (found.kind, found.where) == (Kind.LEFTOVER_FOLDER, str(folder))


def test_input_that_is_gone_is_told_and_only_if_a_recovery_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    source = {"kind": "files", "path": str(folder), "format": "jsonl", "schema": "n long"}
    with patients(tmp_path / "project", source=source).open() as world:
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
            world.store.epochs.propose(
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
        assert kinds(world) == []
        (folder / "1.jsonl").unlink()
        (found,) = diagnosed(world, CLICKS).findings
        assert (found.kind, found.epochs) == (Kind.SOURCE_EXPIRED, (1,))
        assert "1.jsonl is gone from" in found.evidence
        a_primary(world, REPLICA)
        assert diagnosed(world, CLICKS).findings[0].repairs == (), "it replays, and is not past it"
        a_heartbeat(world, REPLICA, epoch=1)
        (ship,) = diagnosed(world, CLICKS).findings[0].repairs
        assert ship.kind is RepairKind.SHIP_SNAPSHOT
        world.store.replicas.end(REPLICA, ReplicaState.STOPPED, "told to stop", by=EndedBy.REPLICA)
        assert repaired(world) == [], "nothing is given up unasked"
        assert repaired(world, chosen=RepairKind.SKIP_INPUT) == ["SkipInput"]
        assert kinds(world) == [Kind.INPUT_SKIPPED]
        Quarantine(world, CLICKS, RUN).undo()
        assert kinds(world) == [Kind.SOURCE_EXPIRED]
        away = folder.rename(tmp_path / "not mounted")
        (world.config.home / "replicas" / "clicks-0000000c").mkdir(parents=True)
        told = diagnosed(world, CLICKS).findings
        assert [one.kind for one in told] == [Kind.SOURCE_AWAY, Kind.LEFTOVER_FOLDER]
        assert "nobody can say what is lost" in told[0].evidence
        assert repaired(world) == ["SetAsideLeftovers"]
        away.rename(folder)
        checkpoint.commit(2)
        world.vault(CLICKS).ship(
            checkpoint.root,
            1,
            token=1,
            replica=REPLICA,
            parent=None,
            conf={},
            created_at=0.0,
            scratch=tmp_path / "scratch",
        )
        assert kinds(world) == [Kind.MANIFEST_WITHOUT_ROW]
        shorten(folder / "2.jsonl")
        assert Kind.SOURCE_EXPIRED in kinds(world)
