"""What benchmarks/age writes for a simulated hour is what the product takes for its own."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.ageing.control_store import Author, ControlStoreAgeing, Detail, move_rows
from benchmarks.ageing.hours import ALL_HOURS, INPUT_HOURS, RECORDS_HOURS, choose_detail
from benchmarks.ageing.output_table import TableAgeing, move_table
from benchmarks.ageing.snapshots import EVERY_SECONDS, SnapshotAgeing, renumber_path
from benchmarks.ageing.workload import INPUT, RATE
from benchmarks.ageing.world import SimulatedProject
from holdfast.ft_policies.table_epochs import EpochRange
from holdfast.observation.tables import merged_rows, table_epochs
from holdfast.orchestration.inputs import read_inputs
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.records import SnapshotState
from holdfast.resources.project import open_project
from tests.builders.lived_stream import EPOCHS, live, write_project

AT = 1_700_000_000.0
SECONDS = 30
AUTHOR = Author(replica="age_rate-00000001", token=2)


@pytest.fixture(params=["rate", "files"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimulatedProject]:
    stream = write_project(tmp_path, request.param)
    with open_project(tmp_path) as opened:
        yield live(opened, stream, AT)


def only_stream(project: SimulatedProject) -> str:
    return next(iter(project.config.streams))


def age_control_store(project: SimulatedProject, detail: Detail = Detail.ALL) -> ControlStoreAgeing:
    stream = only_stream(project)
    is_files = project.config.stream(stream).source.kind == "files"
    folder = project.config.root / INPUT if is_files else None
    ageing = ControlStoreAgeing.of(project, stream, input_folder=folder)
    ageing.write_hour(EPOCHS, SECONDS, AT, AUTHOR, detail)
    return ageing


def test_epochs_follow_each_other_and_agree_with_the_ledger(project: SimulatedProject) -> None:
    age_control_store(project)
    store, stream = project.store, only_stream(project)
    audit = store.ledger.audit(stream)
    assert (audit.holes, audit.uncommitted, audit.disagreements) == ([], [], [])
    assert store.auditing.find_undecided(stream) == []
    last = store.epochs.last(stream)
    assert last is not None
    assert last.epoch == EPOCHS + SECONDS - 1
    rows = store.epochs.between(stream, 0, last.epoch)
    assert all(before.end.keys() == after.start.keys() for before, after in pairwise(rows))
    taken = last.end.get("rows", last.end.get("files"))
    assert taken == (EPOCHS + SECONDS) * (RATE if "rows" in last.end else 1)


def test_input_files_are_those_of_their_epochs(project: SimulatedProject) -> None:
    age_control_store(project)
    stream = only_stream(project)
    if project.config.stream(stream).source.kind == "files":
        assert len(read_inputs(project, stream).needed) == EPOCHS + SECONDS
        assert len(project.store.epoch_files.find(stream, ["000000000035.jsonl"])) == 1


def test_a_recovery_is_there_once_a_day(project: SimulatedProject) -> None:
    ageing = age_control_store(project)
    ageing.write_recovery(1, AT + 60, AUTHOR)
    closed = project.store.incidents.of(only_stream(project), open_only=False)
    assert AUTHOR.replica in {incident.replica for incident in closed}
    row = project.store.replicas.get(AUTHOR.replica)
    assert row is not None
    assert row.ended_at is not None
    assert row.ended_at >= AT + 60
    assert Path(row.folder).name == AUTHOR.replica


def test_the_table_has_each_epoch_once(project: SimulatedProject) -> None:
    stream = only_stream(project)
    root = Path(project.config.table_path(stream))
    inputs = age_control_store(project).input_digests(EPOCHS, SECONDS, AT, AUTHOR)
    TableAgeing.of(root).write_hour(EPOCHS, SECONDS, AT, AUTHOR, inputs)
    table = DeltaTable(str(root))
    counts = table_epochs(table, stream).counts
    assert counts == dict.fromkeys(range(EPOCHS + SECONDS), 1)
    assert table.to_pyarrow_table().num_rows == (EPOCHS + SECONDS) * RATE
    assert table.transaction_version(f"holdfast/{stream}") == EPOCHS + SECONDS - 1


def test_an_hour_that_was_compacted_long_ago_is_one_file_with_each_epoch_once(
    project: SimulatedProject,
) -> None:
    stream = only_stream(project)
    ageing, root = age_control_store(project), Path(project.config.table_path(stream))
    table_ageing, half = TableAgeing.of(root), SECONDS // 2
    table_ageing.write_merged_hour(EPOCHS, half, AT, AUTHOR, ageing.entry.digest)
    inputs = ageing.input_digests(EPOCHS, SECONDS, AT, AUTHOR)
    table_ageing.write_hour(EPOCHS + half, half, AT + half, AUTHOR, inputs)
    table = DeltaTable(str(root))
    epochs = table_epochs(table, stream)
    assert all(epochs.holds(epoch) for epoch in range(EPOCHS + SECONDS))
    assert epochs.twice == ()
    merged = EpochRange(EPOCHS, EPOCHS + half - 1)
    rows = merged_rows(project, stream, table, merged)
    assert rows == dict.fromkeys(range(EPOCHS, EPOCHS + half), RATE)  # a restore can cut it
    assert table.to_pyarrow_table().num_rows == (EPOCHS + SECONDS) * RATE
    assert table.transaction_version(f"holdfast/{stream}") == EPOCHS + SECONDS - 1


def test_of_an_old_hour_only_what_is_kept_for_a_week_is_written(project: SimulatedProject) -> None:
    stream, store = only_stream(project), project.store
    folder = project.config.root / INPUT
    folder.mkdir(exist_ok=True)
    had = len(list(folder.iterdir()))
    ageing = age_control_store(project, Detail.MERGED)
    assert len(list(folder.iterdir())) == had
    assert store.ledger.audit(stream).holes == []
    times = [sample.at for sample in store.samples.latest(stream).values()]
    ageing.write_hour(EPOCHS + SECONDS, SECONDS, AT + SECONDS, AUTHOR, Detail.RECORDS)
    assert max(sample.at for sample in store.samples.latest(stream).values()) > max(times)


def test_of_the_snapshots_of_an_old_hour_the_last_is_there_and_the_catalogue_knows_all(
    project: SimulatedProject, tmp_path: Path
) -> None:
    stream = only_stream(project)
    ageing = SnapshotAgeing.of(project, stream, tmp_path / "scratch")
    before = len(project.vault(stream).list())
    ageing.write_hour(EPOCHS, SECONDS, AT, AUTHOR, Detail.RECORDS)
    assert len(project.vault(stream).list()) == before + 1
    states = [row.state for row in project.store.snapshots.of(stream, available_only=False)]
    assert states.count(SnapshotState.DROPPED) == SECONDS // EVERY_SECONDS - 1


def test_the_last_hours_are_written_in_full() -> None:
    assert choose_detail(0) is choose_detail(ALL_HOURS - 1) is Detail.ALL
    assert choose_detail(ALL_HOURS) is choose_detail(INPUT_HOURS - 1) is Detail.INPUT
    assert choose_detail(INPUT_HOURS) is choose_detail(RECORDS_HOURS - 1) is Detail.RECORDS
    assert choose_detail(RECORDS_HOURS) is Detail.MERGED


def test_copied_snapshots_can_be_verified_and_the_last_restored(
    project: SimulatedProject, tmp_path: Path
) -> None:
    stream = only_stream(project)
    ageing = SnapshotAgeing.of(project, stream, tmp_path / "scratch")
    ageing.write_hour(EPOCHS, SECONDS, AT, AUTHOR)
    vault = project.vault(stream)
    assert [vault.verify(record.id) for record in vault.list()] == [[]] * 4
    age_control_store(project)
    last = EPOCHS + SECONDS - 1
    ageing.ship_last(last, AUTHOR)
    restored = vault.restore_newest(tmp_path / "restored")
    assert restored is not None
    decided = project.store.epochs.get(stream, last)
    assert decided is not None
    offsets = (tmp_path / "restored" / "offsets" / str(last)).read_text()
    assert offsets.endswith(f'{{"epoch":{last},"input":"{digest_input(decided)}"}}')


def test_only_numbers_of_epochs_are_raised() -> None:
    paths = ["offsets/9", "commits/9", "state/0/1/10.delta", "state/0/_metadata/v2/0", "metadata"]
    assert [renumber_path(path, 100) for path in paths] == [
        "offsets/109", "commits/109", "state/0/1/110.delta", "state/0/_metadata/v2/0", "metadata",
    ]  # fmt: skip


def test_all_times_move_together(project: SimulatedProject) -> None:
    stream = only_stream(project)
    root = Path(project.config.table_path(stream))
    before = project.store.ledger.last(stream)
    version = DeltaTable(str(root)).history(1)[0]["timestamp"]
    move_rows(project, -3600.0)
    move_table(root, -3600.0)
    after = project.store.ledger.last(stream)
    assert before is not None
    assert after is not None
    assert before.committed_at - after.committed_at == pytest.approx(3600.0)
    assert version - DeltaTable(str(root)).history(1)[0]["timestamp"] >= 3_590_000
