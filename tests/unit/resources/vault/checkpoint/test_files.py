from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.vault.checkpoint.files import cut, find_chain
from tests.builders.checkpoints import StateKind, SyntheticCheckpoint

JOIN = ("left-keyToNumValues", "right-keyToNumValues")


def paths(checkpoint: SyntheticCheckpoint, epoch: int) -> set[str]:
    return {file.path for file in cut(checkpoint.root, epoch)}


def of_store(checkpoint: SyntheticCheckpoint, epoch: int, store: str = "state/0/0") -> set[str]:
    names = (p.removeprefix(store + "/") for p in paths(checkpoint, epoch) if p.startswith(store))
    return {name for name in names if not name.startswith("_metadata")}


def test_the_logs_are_cut_to_what_spark_reads(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path)
    checkpoint.commit(8)
    logs = {p for p in paths(checkpoint, 5) if p.startswith(("offsets", "commits", "metadata"))}
    expected = {f"{log}/{n}" for log in ("offsets", "commits") for n in (3, 4, 5)}
    assert logs == expected | {"metadata"}


def test_deltas_follow_the_newest_snapshot(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, snapshot_every=5)
    checkpoint.commit(9)
    assert of_store(checkpoint, 6) == {"5.snapshot", "6.delta", "7.delta"}
    assert of_store(checkpoint, 4) == {"5.snapshot"}
    assert of_store(checkpoint, 3) == {"1.delta", "2.delta", "3.delta", "4.delta"}


def shipped_on(checkpoint: SyntheticCheckpoint, first: int, last: int) -> set[str]:
    """The state of a store in a cut, each cut knowing what the one before has shipped."""
    stored: set[str] = set()
    for epoch in range(first, last + 1):
        stored = {file.path for file in cut(checkpoint.root, epoch, stored=stored)}
    names = (path.removeprefix("state/0/0/") for path in stored if path.startswith("state/0/0/"))
    return {name for name in names if not name.startswith("_metadata")}


def test_a_whole_that_is_shipped_is_gone_on_from_while_its_changes_are_light(
    tmp_path: Path,
) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, snapshot_every=5, snapshot_bytes=4_000_000)
    checkpoint.commit(14)
    assert shipped_on(checkpoint, 5, 12) == {"5.snapshot", *(f"{n}.delta" for n in range(6, 14))}
    assert of_store(checkpoint, 12) == {"10.snapshot", *(f"{n}.delta" for n in range(11, 14))}


def test_changes_that_weigh_as_much_as_the_state_are_replaced_by_its_whole(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, snapshot_every=5, snapshot_bytes=64)
    checkpoint.commit(14)
    assert shipped_on(checkpoint, 5, 12) == {"10.snapshot", *(f"{n}.delta" for n in range(11, 14))}


def test_a_chain_that_spark_has_begun_to_remove_is_left(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, snapshot_every=5, snapshot_bytes=4_000_000)
    checkpoint.commit(14)
    stored = {file.path for file in cut(checkpoint.root, 6)}
    (tmp_path / "state/0/0/8.delta").unlink()
    (tmp_path / "state/0/1/5.snapshot").unlink()
    names = {file.path for file in cut(checkpoint.root, 12, stored=stored)}
    assert {"state/0/0/10.snapshot", "state/0/1/10.snapshot"} <= names
    assert not {"state/0/0/5.snapshot", "state/0/1/9.delta"} & names


def test_a_rocksdb_archive_comes_with_its_tables(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, StateKind.ROCKSDB, snapshot_every=5)
    checkpoint.commit(7)
    names = of_store(checkpoint, 6)
    assert {name for name in names if not name.startswith("SSTs/")} == {"7.zip"}
    assert {name[:11] for name in names if name.startswith("SSTs/")} == {
        "SSTs/000005",
        "SSTs/000006",
        "SSTs/000007",
    }


def test_changelogs_follow_the_newest_archive(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, StateKind.CHANGELOG, snapshot_every=5)
    checkpoint.commit(8)
    names = {name for name in of_store(checkpoint, 7) if not name.startswith("SSTs/")}
    assert names == {"5.zip", "6.changelog", "7.changelog", "8.changelog"}


@pytest.mark.parametrize("kind", list(StateKind))
def test_every_store_of_a_join_is_taken(tmp_path: Path, kind: StateKind) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, kind, partitions=3, stores=JOIN)
    checkpoint.commit(3)
    for folder in checkpoint.store_folders():
        assert any(p.startswith(f"{folder}/3.") for p in paths(checkpoint, 2))
        assert f"{folder}/_metadata/schema" in paths(checkpoint, 2)


def test_a_stateless_query_has_no_state(tmp_path: Path) -> None:
    for path in ("metadata", "offsets/0", "commits/0", "sources/0/0"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("v1")
    names = [file.path for file in cut(tmp_path, 0)]
    assert names == ["commits/0", "metadata", "offsets/0", "sources/0/0"]


def test_hidden_and_unfinished_files_are_never_taken(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path)
    checkpoint.commit(2)
    for junk in ("sources/0/1.tmp", "sources/0/.hidden", "state/0/0/.2.delta.x.tmp"):
        (tmp_path / junk).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / junk).write_text("junk")
    assert not [p for p in paths(checkpoint, 1) if "tmp" in p or "/." in p or p.endswith("crc")]


def test_descriptions_of_later_batches_are_left_behind(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path)
    checkpoint.commit(4)
    described = (tmp_path / "state/0/_metadata/metadata").read_text()
    for name in ("_metadata/v2/0", "_metadata/v2/3", "_stateSchema/default/3_x"):
        (tmp_path / "state/0" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "state/0" / name).write_text(described)
    taken = paths(checkpoint, 2)
    assert "state/0/_metadata/v2/0" in taken
    assert not {"state/0/_metadata/v2/3", "state/0/_stateSchema/default/3_x"} & taken


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2)])
def test_state_that_spark_has_repartitioned_is_cut_whole(
    tmp_path: Path, before: int, after: int
) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, StateKind.ROCKSDB, partitions=before)
    checkpoint.commit(3)
    checkpoint.repartition(after)
    last = checkpoint.commit(1)
    for epoch, partitions in ((2, before), (3, after), (last, after)):
        whole = {p for p in paths(checkpoint, epoch) if p.endswith(f"/{epoch + 1}.zip")}
        assert whole == {f"state/0/{n}/{epoch + 1}.zip" for n in range(partitions)}


def test_an_aggregation_without_keys_has_one_partition_whatever_the_query_has(
    tmp_path: Path,
) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, partitions=1)
    checkpoint.commit(2)
    for epoch in range(2):
        offsets = tmp_path / f"offsets/{epoch}"
        offsets.write_bytes(offsets.read_bytes().replace(b'partitions": "1"', b'partitions": "2"'))
    assert of_store(checkpoint, 1) == {"1.delta", "2.delta"}


def test_an_epoch_that_is_not_committed_is_refused(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path)
    checkpoint.commit(2)
    with pytest.raises(PermanentError, match="epoch 2 is not committed"):
        cut(tmp_path, 2)


def test_a_broken_chain_is_refused(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path)
    checkpoint.commit(4)
    (tmp_path / "state/0/1/2.delta").unlink()
    with pytest.raises(PermanentError, match="lacks the change of version 2"):
        cut(tmp_path, 3)


def test_a_partition_that_vanished_is_noticed(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, partitions=2)
    checkpoint.commit(2)
    (tmp_path / "state/0/1").rename(tmp_path / "elsewhere")
    with pytest.raises(PermanentError, match="state/0/1 cannot be rebuilt"):
        cut(tmp_path, 1)


def test_an_archive_whose_table_is_missing_is_refused(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, StateKind.ROCKSDB)
    checkpoint.commit(2)
    next((tmp_path / "state/0/0/SSTs").glob("*.sst")).unlink()
    with pytest.raises(PermanentError, match=r"needs SSTs/.*missing"):
        cut(tmp_path, 1)


def test_a_checkpoint_without_its_query_is_refused(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path)
    checkpoint.commit(2)
    (tmp_path / "metadata").unlink()
    with pytest.raises(PermanentError, match="no file metadata"):
        cut(tmp_path, 1)


def test_an_archive_that_is_none_is_refused(tmp_path: Path) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, StateKind.ROCKSDB)
    checkpoint.commit(2)
    (tmp_path / "state/0/0/2.zip").write_bytes(b"not a zip")
    with pytest.raises(PermanentError, match="not a RocksDB checkpoint"):
        cut(tmp_path, 1)


def test_format_version_two_is_refused_with_the_way_out() -> None:
    with pytest.raises(PermanentError, match="format version 2") as refused:
        find_chain(["1_5a4a065c-8153.changelog"], 1, store="state/0/0")
    assert "checkpointFormatVersion" in refused.value.hint
