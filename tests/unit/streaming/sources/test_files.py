"""Files that arrive in a folder, each in exactly one epoch."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, fs, parquet

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.tables.epochs.log import count_skipped_rows
from holdfast.streaming.sources.base import Backlog, Json
from holdfast.streaming.sources.files import ASKED_AT_ONCE, FilesSource
from holdfast.streaming.sources.folder import ListedFile, Mount, find_mount
from tests.builders.calls import count_calls

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
LONG_AGO = 1_000_000.0
NOW = 2_000_000.0


class Folder:
    """A folder of input files, and the source that reads it; `remote` is read as a prefix in a bucket."""

    def __init__(
        self, path: Path, kind: str = "jsonl", *, remote: bool = False, **declared: object
    ) -> None:
        self.path = path
        self.mount = Mount("/", "ext4")
        self.assigned: set[str] = set()
        self.position: Json | None = None
        self.asked: list[str] = []
        declaration = FilesDeclaration.model_validate(
            {
                "kind": "files",
                "path": str(path),
                "format": kind,
                "schema": "id bigint, word string",
                **declared,
            }
        )
        bucket = fs.SubTreeFileSystem(str(path.parent), fs.LocalFileSystem())
        files, root = (bucket, path.name) if remote else (fs.LocalFileSystem(), str(path))
        self._open = lambda: FilesSource(
            declaration, SCHEMA, files, root, self._ask, find_mount=lambda _: self.mount
        )
        self.source = self._open()

    def fail_over(self) -> None:
        """Go on with another replica, which remembers nothing."""
        self.source, self.asked = self._open(), []

    def _ask(self, files: Sequence[ListedFile]) -> set[str]:
        self.asked += [file.name for file in files]
        return {file.name for file in files} & self.assigned

    def add(self, name: str, text: str, changed_at: float = LONG_AGO) -> Path:
        file = self.path / name
        file.write_text(text)
        os.utime(file, (changed_at, changed_at))
        return file

    def lines(self, name: str, *ids: int) -> Path:
        return self.add(name, "".join(f'{{"id": {n}, "word": "w{n}"}}\n' for n in ids))

    def take(self, rows: int, now: float = NOW) -> list[str]:
        taken = self.source.take(self.position, rows, now=now)
        names = [file["name"] for file in taken.input["files"]]
        self.assigned.update(names)
        self.position = taken.end
        return names


def ids(source: FilesSource, taken: dict[str, object]) -> list[int]:
    return [
        row["id"]
        for split in source.splits(taken)
        for batch in source.read(split)
        for row in batch.to_pylist()
    ]


def test_files_are_taken_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name in ("b.jsonl", "a.jsonl", "c.jsonl"):
        folder.lines(name, 1, 2)
    assert folder.source.waiting_rows(None, now=NOW) == 6
    assert folder.take(4) == ["a.jsonl", "b.jsonl"]
    assert folder.source.waiting_rows(None, now=NOW) == 2


def test_a_file_that_is_larger_than_an_epoch_gets_one_of_its_own(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", *range(50))
    folder.lines("b.jsonl", 1)
    assert folder.take(10) == ["a.jsonl"]


def test_a_file_whose_name_comes_late_is_not_lost(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("m.jsonl", 1)
    assert folder.take(10) == ["m.jsonl"]
    folder.lines("a.jsonl", 2)
    assert folder.take(10, now=NOW + 5) == ["a.jsonl"]


def test_a_file_that_still_changes_waits_and_hidden_ones_are_not_input(tmp_path: Path) -> None:
    folder = Folder(tmp_path, settle=2)
    folder.add("a.jsonl", '{"id": 1}\n', changed_at=NOW - 1)
    for name in (".b.jsonl", "_c.jsonl", "d.txt"):
        folder.lines(name, 1)
    assert folder.take(10) == []
    assert folder.take(10, now=NOW + 2) == ["a.jsonl"]


def test_a_clock_that_is_set_back_does_not_stop_the_listing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.take(10) == []
    folder.lines("a.jsonl", 1)
    assert folder.take(10, now=NOW - 3600) == ["a.jsonl"]


def test_files_from_before_the_clock_was_set_back_are_read_once_they_settle(tmp_path: Path) -> None:
    folder = Folder(tmp_path, settle=2)
    folder.add("a.jsonl", '{"id": 1}\n', changed_at=NOW)
    assert folder.take(10, now=NOW - 3600) == []
    assert folder.take(10, now=NOW - 3599) == []
    folder.add("a.jsonl", '{"id": 10}\n', changed_at=NOW)
    assert folder.take(10, now=NOW - 3597.5) == []
    assert folder.take(10, now=NOW - 3595) == ["a.jsonl"]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_each_format_is_read_in_the_declared_columns(tmp_path: Path, kind: str) -> None:
    table = pa.table({"word": ["x", None], "id": pa.array([1, 2], pa.int32()), "more": [0.5, 1.5]})
    file = tmp_path / f"a.{kind}"
    match kind:
        case "parquet":
            parquet.write_table(table, file)
        case "csv":
            csv.write_csv(table, file)
        case _:
            file.write_text('{"word": "x", "id": 1, "more": 1}\n{"id": 2}\n')
    os.utime(file, (LONG_AGO, LONG_AGO))
    source = Folder(tmp_path, kind).source
    taken = source.take(None, 10, now=NOW)
    read = pa.Table.from_batches(
        [b for split in source.splits(taken.input) for b in source.read(split)]
    )
    assert taken.rows == 2
    assert read.to_pylist() == [{"id": 1, "word": "x"}, {"id": 2, "word": None}]


def test_csv_without_a_header_takes_the_columns_in_order(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "csv", csv_header=False)
    folder.add("a.csv", '1,"two\nlines"\n2,b\n')
    taken = folder.source.take(None, 10, now=NOW)
    assert taken.rows == 2
    assert ids(folder.source, dict(taken.input)) == [1, 2]


def test_a_file_that_changed_after_it_was_assigned_is_an_error(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1)
    taken = dict(folder.source.take(None, 10, now=NOW).input)
    folder.lines("a.jsonl", 1, 2)
    with pytest.raises(PermanentError, match=r"a\.jsonl .* has changed since it was assigned"):
        ids(folder.source, taken)


def test_a_file_that_vanished_after_it_was_assigned_is_an_error(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    file = folder.lines("a.jsonl", 1)
    taken = dict(folder.source.take(None, 10, now=NOW).input)
    file.unlink()
    with pytest.raises(PermanentError, match=r"a\.jsonl is gone"):
        ids(folder.source, taken)


def test_a_folder_that_is_away_is_waited_for(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    folder.path.mkdir()
    folder.lines("a.jsonl", 1)
    taken = dict(folder.source.take(None, 10, now=NOW).input)
    splits = folder.source.splits(taken)
    folder.path.rename(tmp_path / "unmounted")
    with pytest.raises(TransientError, match="is away"):
        folder.source.waiting_rows(None, now=NOW + 60)
    with pytest.raises(TransientError, match="is away"):
        folder.source.splits(taken)
    with pytest.raises(TransientError, match="is away"):
        list(folder.source.read(splits[0]))
    (tmp_path / "unmounted").rename(folder.path)
    assert ids(folder.source, taken) == [1]


@pytest.mark.parametrize(("kind", "text"), [("parquet", "no"), ("jsonl", "{"), ("csv", "id\nx\n")])
def test_a_file_that_is_not_what_it_should_be_says_so(tmp_path: Path, kind: str, text: str) -> None:
    folder = Folder(tmp_path, kind)
    folder.add(f"a.{kind}", text)
    with pytest.raises(PermanentError, match=rf"a\.{kind}"):
        folder.source.waiting_rows(None, now=NOW)


def test_an_empty_file_is_no_rows(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.add("a.jsonl", "")
    folder.lines("b.jsonl", 1)
    taken = folder.source.take(None, 10, now=NOW)
    assert [file["name"] for file in taken.input["files"]] == ["a.jsonl", "b.jsonl"]
    assert ids(folder.source, dict(taken.input)) == [1]


def test_files_of_decided_epochs_that_are_gone_or_have_changed_are_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        folder.lines(name, 1)
    taken = folder.source.take(None, 3, now=NOW)
    assert folder.source.lacking([taken.input]) == []
    (tmp_path / "a.jsonl").unlink()
    folder.lines("c.jsonl", 1, 2)
    assert folder.source.lacking([taken.input]) == ["a.jsonl", "c.jsonl"]


def test_files_of_an_earlier_pattern_are_not_lacking(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1)
    taken = folder.source.take(None, 1, now=NOW)
    assert Folder(tmp_path, pattern="new*").source.lacking([taken.input]) == []


def test_an_assigned_file_is_asked_for_once_while_it_is_listed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1)
    folder.assigned.add("a.jsonl")
    for poll in range(3):
        assert folder.take(10, now=NOW + 100 * poll) == []
    assert folder.asked == ["a.jsonl"]
    folder.lines("b.jsonl", 2)
    assert folder.take(10, now=NOW + 1000) == ["b.jsonl"]
    assert folder.asked == ["a.jsonl", "b.jsonl"]


def test_an_assigned_file_that_has_changed_is_asked_for_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1)
    folder.assigned.add("a.jsonl")
    assert folder.take(10) == []
    folder.lines("a.jsonl", 1, 2)
    assert folder.take(10, now=NOW + 100) == []
    assert folder.asked == ["a.jsonl", "a.jsonl"]


def test_only_as_many_files_are_asked_for_as_an_epoch_needs(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(ASKED_AT_ONCE + 5):
        folder.lines(f"{number:04}.jsonl", 1)
    assert folder.take(2) == ["0000.jsonl", "0001.jsonl"]
    assert len(folder.asked) == ASKED_AT_ONCE


def test_rows_are_remembered_only_for_files_that_wait(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for poll in range(5):
        folder.lines(f"{poll}.jsonl", 1)
        assert folder.take(10, now=NOW + 100 * poll) == [f"{poll}.jsonl"]
    assert folder.take(10, now=NOW + 1000) == []
    assert len(folder.source._counted) <= 1


def test_a_backlog_is_estimated_from_sizes_and_dated_by_its_oldest_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1, 2)
    taken = folder.source.take(None, 100, now=NOW)
    folder.assigned.add("a.jsonl")
    folder.add("b.jsonl", "not read, so it need not be readable", changed_at=NOW + 50)
    folder.lines("c.jsonl", 1, 2, 3)
    folder.lines("d.jsonl", 1, 2, 3)
    for name, age in (("c.jsonl", 40), ("d.jsonl", 30)):
        os.utime(tmp_path / name, (NOW + age, NOW + age))

    backlog = folder.source.backlog(taken.end, [taken.input], now=NOW + 100)

    size = sum((tmp_path / name).stat().st_size for name in ("b.jsonl", "c.jsonl", "d.jsonl"))
    assert backlog.rows == round(size * 2 / (tmp_path / "a.jsonl").stat().st_size)
    assert backlog.oldest_at == NOW + 30
    assert folder.source.arrived_at(taken.input, taken.end) == LONG_AGO


def test_a_backlog_without_an_epoch_to_compare_with_has_an_unknown_number_of_rows(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    assert folder.source.backlog(None, [], now=NOW) == Backlog(rows=0, oldest_at=None)
    folder.lines("a.jsonl", 1, 2)
    assert folder.source.backlog(None, [], now=NOW + 10) == Backlog(rows=None, oldest_at=NOW)
    assert folder.source.arrived_at({"files": []}, {"files": 0}) is None


def test_an_old_file_arrives_when_it_is_moved_into_the_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1, 2)
    assert folder.source.backlog(None, [], now=NOW).oldest_at == LONG_AGO
    assert folder.take(100) == ["a.jsonl"]
    for number in range(1, 4):
        folder.lines(f"{number}.jsonl", 1, 2)
        listed_at = NOW + 10 * number
        assert folder.source.backlog(None, [], now=listed_at).oldest_at == listed_at - 10
        taken = folder.source.take(None, 100, now=listed_at)
        folder.assigned.add(f"{number}.jsonl")
        assert folder.source.backlog(None, [], now=listed_at).oldest_at is None
        assert folder.source.arrived_at(taken.input, taken.end) == listed_at - 10


def test_files_from_before_a_time_are_skipped_once_and_their_rows_counted(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1, 2)
    folder.lines("b.jsonl", 3)
    recent = folder.lines("c.jsonl", 4)
    os.utime(recent, (NOW - 30, NOW - 30))

    skipped = folder.source.skip({"files": 7}, [], before=NOW - 60, now=NOW)

    assert skipped is not None
    assert (skipped.rows, skipped.end["files"]) == (0, 9)
    assert count_skipped_rows(skipped.input) == {"a.jsonl": 2, "b.jsonl": 1}
    assert folder.source.splits(skipped.input) == []
    folder.assigned.update(count_skipped_rows(skipped.input))
    assert folder.source.skip(skipped.end, [], before=NOW - 60, now=NOW) is None
    assert folder.take(10) == ["c.jsonl"]


def test_a_skip_opens_no_file_if_recent_epochs_had_some(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    size = folder.lines("a.jsonl", 1, 2).stat().st_size
    taken = folder.source.take(None, 100, now=NOW)
    folder.assigned.add("a.jsonl")
    folder.add("b.jsonl", "x" * 3 * size)  # not read, so it need not be readable
    folder.add("c.jsonl", "not old, and not read either", changed_at=NOW + 5)

    skipped = folder.source.skip(taken.end, [taken.input], before=NOW, now=NOW + 10)

    assert skipped is not None
    assert count_skipped_rows(skipped.input) == {"b.jsonl": 6}


def a_folder_of_taken_files(path: Path, files: int, *, remote: bool = False) -> Folder:
    path.mkdir()
    folder = Folder(path, remote=remote)
    for number in range(files):
        folder.lines(f"{number:05}.jsonl", number)
    assert len(folder.take(files)) == files
    assert folder.take(1, now=NOW + 10) == []
    return folder


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("arrived", [0, 1])
def test_the_work_of_a_poll_does_not_grow_with_the_files_that_were_taken(
    tmp_path: Path, arrived: int, *, remote: bool
) -> None:
    work = []
    for files in (200, 1_000):
        folder = a_folder_of_taken_files(tmp_path / str(files), files, remote=remote)
        for number in range(arrived):
            folder.lines(f"new{number}.jsonl", 1)

        def poll(folder: Folder = folder) -> None:
            folder.source.waiting_rows(folder.position, now=NOW + 20)
            folder.source.backlog(folder.position, [], now=NOW + 20)
            folder.take(10, now=NOW + 20)

        work.append(count_calls(poll).total())
    assert work[1] <= 1.05 * work[0]


def test_memory_holds_the_names_of_taken_files_and_no_more(tmp_path: Path) -> None:
    folder = a_folder_of_taken_files(tmp_path / "in", 200)
    assert folder.take(1, now=NOW + 20) == []
    values = vars(folder.source).values()
    held = sorted(len(value) for value in values if isinstance(value, list | dict | set))
    assert held[-2:] == [0, 200]


def test_a_new_replica_asks_only_for_files_that_may_be_new(tmp_path: Path) -> None:
    folder = a_folder_of_taken_files(tmp_path / "in", 1_000, remote=True)
    folder.lines("a.jsonl", 1)
    os.utime(tmp_path / "in" / "a.jsonl", (LONG_AGO + 7_200, LONG_AGO + 7_200))
    assert folder.take(10, now=NOW + 20) == ["a.jsonl"]
    for lag in (False, True):
        folder.fail_over()
        folder.lines("b.jsonl", 1)
        os.utime(tmp_path / "in" / "b.jsonl", (LONG_AGO + 7_300, LONG_AGO + 7_300))
        if lag:
            assert folder.source.backlog(folder.position, [], now=NOW).oldest_at is not None
        else:
            assert folder.source.waiting_rows(folder.position, now=NOW) == 1
        assert sorted(folder.asked) == ["a.jsonl", "b.jsonl"]


def test_files_that_wait_are_asked_for_by_a_new_replica_however_old_they_are(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path, remote=True)
    for number in range(5):
        folder.lines(f"{number}.jsonl", number)
        at = LONG_AGO + 86_400 * number
        os.utime(tmp_path / f"{number}.jsonl", (at, at))
    for number in range(5):
        folder.fail_over()
        assert folder.take(1) == [f"{number}.jsonl"]


def test_an_old_file_that_a_new_replica_believes_taken_is_found_in_time(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lines("a.jsonl", 1)
    assert folder.take(10) == ["a.jsonl"]
    assert folder.position is not None
    folder.fail_over()
    folder.position = {**folder.position, "taken_until_ns": 2**62}  # the clock was an hour ahead
    folder.lines("b.jsonl", 2)
    assert folder.take(10) == []
    assert folder.take(10, now=NOW + 10) == ["b.jsonl"]


def test_of_many_taken_files_each_is_looked_at_again(tmp_path: Path) -> None:
    folder = a_folder_of_taken_files(tmp_path / "in", 250)
    folder.lines("00007.jsonl", 1, 2, 3)
    folder.asked.clear()
    for poll in range(3):
        assert folder.take(10, now=NOW + 100 * (poll + 1)) == []
    assert folder.asked == ["00007.jsonl"]
    (tmp_path / "in" / "00008.jsonl").unlink()
    for poll in range(4):
        folder.take(10, now=NOW + 1000 + 100 * poll)
    assert len(folder.source._taken) == 249


@pytest.mark.parametrize(("kind", "listings"), [("ext4", 1), ("nfs4", 4), ("fuse.sshfs", 4)])
def test_a_local_folder_is_listed_only_if_it_has_changed(
    tmp_path: Path, kind: str, listings: int
) -> None:
    folder = Folder(tmp_path)
    folder.mount = Mount("/", kind)
    assert folder.take(10) == []
    folder.lines("a.jsonl", 1)
    assert folder.take(10, now=NOW + 5) == ["a.jsonl"]

    def poll() -> None:
        for second in (10, 12, 14, 16):
            assert folder.take(10, now=NOW + second) == []

    assert count_calls(poll)["listdir"] == listings
    folder.lines("b.jsonl", 1)
    assert folder.take(10, now=NOW + 18) == ["b.jsonl"]


def test_a_folder_that_changed_a_moment_before_it_was_listed_is_listed_again(
    tmp_path: Path,
) -> None:
    """The times of a file system are coarse: a file that comes after the listing may not change the folder's."""
    folder = Folder(tmp_path, poll=0.5)
    changed = tmp_path.stat()
    assert folder.take(10) == []
    folder.lines("a.jsonl", 1)
    os.utime(tmp_path, ns=(changed.st_atime_ns, changed.st_mtime_ns))
    assert folder.take(10, now=NOW + 1) == ["a.jsonl"]


def test_a_file_that_still_grows_in_an_unchanged_folder_is_read_when_it_has_settled(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path, settle=2)
    folder.add("a.jsonl", '{"id": 1}\n', changed_at=NOW)
    assert folder.take(10) == []
    for second in (5, 10):
        folder.add("a.jsonl", '{"id": 1}\n' * second, changed_at=NOW + second)
        assert folder.take(10, now=NOW + second) == []
    assert folder.take(20, now=NOW + 13) == ["a.jsonl"]


def test_an_empty_mount_point_is_away_not_empty(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    folder.path.mkdir()
    folder.mount = Mount(str(folder.path), "ext4")
    folder.lines("a.jsonl", 1)
    taken = folder.source.take(None, 10, now=NOW)
    (split,) = folder.source.splits(taken.input)
    folder.path.rename(tmp_path / "disk")
    folder.path.mkdir()
    folder.mount = Mount("/", "ext4")
    for _replica in range(2):
        with pytest.raises(TransientError, match="is away: it was on a disk at"):
            folder.source.waiting_rows(taken.end, now=NOW + 60)
        with pytest.raises(TransientError, match="is away"):
            folder.source.files(taken.end)
        with pytest.raises(TransientError, match="is away"):
            folder.source.splits(taken.input)
        with pytest.raises(TransientError, match="is away"):
            list(folder.source.read(split))
        folder.fail_over()
    (folder.path / "_lost").touch()
    with pytest.raises(PermanentError, match=r"a\.jsonl is gone"):
        list(folder.source.read(split))


def test_a_folder_that_was_moved_to_the_disk_of_the_system_may_be_empty(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.mount = Mount("/mnt", "ext4")
    folder.lines("a.jsonl", 1)
    assert folder.take(10) == ["a.jsonl"]
    folder.fail_over()
    folder.mount = Mount("/", "ext4")
    folder.lines("b.jsonl", 1)
    assert folder.take(10) == ["b.jsonl"]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).unlink()
    assert folder.take(10, now=NOW + 60) == []
    folder.fail_over()
    assert folder.take(10) == []


def test_a_folder_that_was_emptied_is_empty_wherever_it_is(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.mount = Mount("/mnt", "ext4")
    file = folder.lines("a.jsonl", 1)
    assert folder.take(10) == ["a.jsonl"]
    file.unlink()
    assert folder.take(10, now=NOW + 60) == []
    folder.fail_over()
    assert folder.take(10, now=NOW + 120) == []


def test_the_mount_of_a_path_is_the_deepest_above_it(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "21 1 8:1 / / rw - ext4 /dev/vda rw\n"
        "30 21 8:2 / /data rw shared:1 - xfs /dev/vdb rw\n"
        "31 21 8:3 / /data\\040of\\040\303\274 rw - nfs4 host:/x rw\n"
        "32 30 8:4 / /data/in rw master:1 - fuse.sshfs x rw\n".replace("\303\274", "\u00fc")
    )
    assert find_mount("/data/in/today", table) == Mount("/data/in", "fuse.sshfs")
    assert find_mount("/data/input", table) == Mount("/data", "xfs")
    assert find_mount("/data of \u00fc/in", table) == Mount("/data of \u00fc", "nfs4")
    assert find_mount("/database", table) == Mount("/", "ext4")
    assert find_mount("/proc/self").point == "/proc"
