"""The input of every epoch comes to the local disk, in order, and stays until it is pruned."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.records import EpochProposal
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.inbox import Inbox
from holdfast.streaming.sources.base import Json
from holdfast.streaming.sources.rate import SCHEMA as RATE_SCHEMA
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.prefetcher import Prefetcher
from tests.builders.replicas import a_spec
from tests.waiting import wait_until

FILE_SCHEMA = pa.schema([("id", pa.int64())])
RATE = {
    "kind": "rate",
    "seed": 1,
    "keys": 10,
    "partitions": 3,
    "profile": {"kind": "constant", "rows_per_second": 100},
}


@dataclass
class Received:
    """An epoch log and the prefetcher of a secondary."""

    spec: ReplicaSpec
    store: ControlStore
    schema: pa.Schema | None = None

    @property
    def inbox(self) -> Inbox:
        return Inbox(self.spec.folder)

    def prefetcher(
        self, after_epoch: int = -1, inbox: Inbox | None = None, **options: Any
    ) -> Prefetcher:
        return Prefetcher(
            self.spec,
            self.store,
            inbox or self.inbox,
            after_epoch=after_epoch,
            schema=self.schema,
            look_seconds=0.01,
            **options,
        )

    def decide(self, *inputs: Json) -> None:
        last = self.store.epochs.last("words")
        first = 0 if last is None else last.epoch + 1
        for number, taken in enumerate(inputs, first):
            self.store.epochs.propose(
                EpochProposal(
                    stream="words",
                    epoch=number,
                    start={},
                    end={},
                    input=dict(taken),
                    rows=0,
                    token=1,
                    proposer="r1",
                )
            )

    def read(self, epoch: int, index: int) -> Iterator[pa.RecordBatch] | None:
        return self.inbox.read(epoch, index, digest=self._digest(epoch))

    def has(self, epoch: int, splits: int) -> bool:
        return self.inbox.has(epoch, splits, digest=self._digest(epoch))

    def _digest(self, epoch: int) -> str:
        decided = self.store.epochs.get("words", epoch)
        return "" if decided is None else digest_input(decided)

    def values(self, epoch: int, splits: int, column: str) -> list[int]:
        splits_read = [self.read(epoch, index) for index in range(splits)]
        return [
            value
            for batches in splits_read
            if batches is not None
            for batch in batches
            for value in batch[column].to_pylist()
        ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


@pytest.fixture
def rate(tmp_path: Path, store: ControlStore) -> Received:
    return Received(a_spec(tmp_path, store, source=RATE), store)


@pytest.fixture
def files(tmp_path: Path, store: ControlStore) -> Received:
    (tmp_path / "in").mkdir()
    source = {
        "kind": "files",
        "path": str(tmp_path / "in"),
        "format": "jsonl",
        "schema": "id bigint",
    }
    return Received(a_spec(tmp_path, store, source=source), store, FILE_SCHEMA)


def numbers(first: int, rows: int) -> Json:
    return {"first": first, "rows": rows, "start": 0.0}


def files_of(folder: Path, names: Sequence[str]) -> Json:
    """What the epoch log says of files that are there."""
    stats = [(name, (folder / name).stat()) for name in names]
    return {
        "files": [{"name": n, "size": s.st_size, "changed_ns": s.st_mtime_ns} for n, s in stats]
    }


@contextmanager
def running(prefetcher: Prefetcher) -> Iterator[Prefetcher]:
    prefetcher.start()
    try:
        yield prefetcher
    finally:
        prefetcher.stop()
        prefetcher.join(5.0)
        assert not prefetcher.is_alive()


def test_each_split_of_each_epoch_after_the_first_wanted_is_fetched(rate: Received) -> None:
    rate.decide(numbers(0, 30), numbers(30, 7), numbers(37, 0), numbers(37, 9))
    assert not rate.prefetcher(after_epoch=0).caught_up
    prefetcher = rate.prefetcher(after_epoch=0)
    prefetcher.fetch()
    assert prefetcher.caught_up
    assert rate.inbox.epochs() == [1, 3]
    assert rate.values(1, 3, "offset") == list(range(30, 37))
    assert rate.values(3, 3, "offset") == list(range(37, 46))
    batches = rate.read(1, 0)
    assert batches is not None
    assert next(batches).schema == RATE_SCHEMA


def test_an_empty_epoch_log_is_caught_up_with_at_the_first_look(rate: Received) -> None:
    prefetcher = rate.prefetcher()
    prefetcher.fetch()
    assert prefetcher.caught_up


def test_it_follows_the_log_while_it_runs(rate: Received) -> None:
    with running(rate.prefetcher()) as prefetcher:
        wait_until(lambda: prefetcher.caught_up)
        rate.decide(*(numbers(10 * epoch, 10) for epoch in range(5)))
        wait_until(lambda: rate.has(4, 3))
    assert rate.inbox.epochs() == [0, 1, 2, 3, 4]


def test_many_epochs_are_fetched_in_one_go(rate: Received) -> None:
    rate.decide(*(numbers(epoch, 1) for epoch in range(5)))
    rate.prefetcher(epochs_at_once=2).fetch()
    assert rate.inbox.epochs() == [0, 1, 2, 3, 4]


def test_what_is_in_the_inbox_already_is_not_fetched_again(rate: Received) -> None:
    rate.decide(numbers(0, 30))
    rate.prefetcher().fetch()
    before = {file.stat().st_ino for file in (rate.spec.folder / "inbox/000000000000").iterdir()}
    rate.prefetcher().fetch()
    after = {file.stat().st_ino for file in (rate.spec.folder / "inbox/000000000000").iterdir()}
    assert after == before


def test_an_epoch_that_is_decided_again_is_not_read_from_the_first_decision(rate: Received) -> None:
    rate.decide(numbers(0, 30))
    rate.prefetcher().fetch()
    with rate.store._database.write() as connection:  # the control store loses its last commit
        connection.exec_driver_sql("DELETE FROM epochs")
    rate.decide(numbers(0, 7))
    assert rate.read(0, 0) is None
    rate.prefetcher().fetch()
    assert rate.values(0, 3, "offset") == list(range(7))


def test_pruned_epochs_are_gone_and_those_to_come_are_passed_over(rate: Received) -> None:
    rate.decide(numbers(0, 3), numbers(3, 3))
    prefetcher = rate.prefetcher()
    prefetcher.fetch()
    prefetcher.prune(0)
    assert rate.inbox.epochs() == [1]
    prefetcher.prune(3)
    rate.decide(numbers(6, 3), numbers(9, 3), numbers(12, 3))
    prefetcher.fetch()
    assert rate.inbox.epochs() == [4]
    prefetcher.prune(2)
    assert rate.inbox.epochs() == [4]


def test_an_epoch_that_is_pruned_while_it_is_written_does_not_stay(rate: Received) -> None:
    rate.decide(numbers(0, 30), numbers(30, 30))
    prefetchers: list[Prefetcher] = []

    class PrunedMeanwhile(Inbox):
        def write(self, epoch: int, index: int, *arguments: Any, **options: Any) -> int:
            size = super().write(epoch, index, *arguments, **options)
            if (epoch, index) == (0, 0):
                prefetchers[0].prune(0)
            return size

    inbox = PrunedMeanwhile(rate.spec.folder)
    prefetchers.append(Prefetcher(rate.spec, rate.store, inbox, after_epoch=-1))
    prefetchers[0].fetch()
    assert inbox.epochs() == [1]
    assert prefetchers[0].caught_up


def test_files_are_fetched_as_the_log_names_them(files: Received, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "in" / f"{number}.jsonl").write_text(f'{{"id": {number}}}\n')
    files.decide(files_of(tmp_path / "in", ["0.jsonl", "1.jsonl"]), {"files": []})
    files.decide(files_of(tmp_path / "in", ["2.jsonl"]))
    files.prefetcher().fetch()
    assert files.inbox.epochs() == [0, 2]
    assert files.values(0, 2, "id") == [0, 1]
    assert files.values(2, 1, "id") == [2]


def test_input_that_cannot_be_read_is_tried_again_and_nothing_later_comes_first(
    files: Received, tmp_path: Path
) -> None:
    for number in range(2):
        (tmp_path / "in" / f"{number}.jsonl").write_text(f'{{"id": {number}}}\n')
        files.decide(files_of(tmp_path / "in", [f"{number}.jsonl"]))
    (tmp_path / "in/0.jsonl").rename(tmp_path / "0.jsonl")
    with running(files.prefetcher()) as prefetcher:
        wait_until(lambda: prefetcher._decided == 1)
        assert not prefetcher.caught_up
        assert not files.has(1, 1)
        (tmp_path / "0.jsonl").rename(tmp_path / "in/0.jsonl")
        wait_until(lambda: prefetcher.caught_up)
    assert files.values(0, 1, "id") == [0]


def test_input_that_is_gone_for_good_holds_nothing_up_once_the_state_covers_it(
    files: Received, tmp_path: Path
) -> None:
    for number in range(2):
        (tmp_path / "in" / f"{number}.jsonl").write_text(f'{{"id": {number}}}\n')
        files.decide(files_of(tmp_path / "in", [f"{number}.jsonl"]))
    (tmp_path / "in/0.jsonl").unlink()
    with running(files.prefetcher()) as prefetcher:
        wait_until(lambda: prefetcher._decided == 1)
        prefetcher.prune(0)
        wait_until(lambda: prefetcher.caught_up)
    assert files.inbox.epochs() == [1]


def test_a_disk_that_is_nearly_full_is_left_alone(
    rate: Received, caplog: pytest.LogCaptureFixture
) -> None:
    free = [0]
    rate.decide(numbers(0, 3))
    with running(rate.prefetcher(free_bytes=lambda _: free[0])) as prefetcher:
        wait_until(lambda: "only 0 MiB are free" in caplog.text)
        assert not prefetcher.caught_up
        free[0] = 1 << 40
        wait_until(lambda: prefetcher.caught_up)


def test_an_inbox_that_is_full_gets_no_further_epoch_until_the_state_covers_some(
    rate: Received, caplog: pytest.LogCaptureFixture
) -> None:
    rate.decide(*(numbers(1000 * epoch, 1000) for epoch in range(20)))
    with running(rate.prefetcher(most_bytes=200_000)) as prefetcher:
        wait_until(lambda: "its bound is 0 MiB" in caplog.text)
        assert not prefetcher.caught_up
        full = rate.inbox.epochs()
        assert 1 < len(full) < 10
        assert rate.read(full[-1] + 1, 0) is None, "a task reads it at the source"
        prefetcher.prune(full[-1])
        wait_until(lambda: rate.has(full[-1] + 1, 3))
        assert not prefetcher.caught_up
        prefetcher.prune(18)
        wait_until(lambda: prefetcher.caught_up)


def test_what_an_earlier_prefetcher_has_left_counts(rate: Received) -> None:
    rate.decide(numbers(0, 1000))
    rate.prefetcher().fetch()
    rate.decide(numbers(1000, 1000))
    with pytest.raises(TransientError, match="the inbox has 0 MiB") as raised:
        rate.prefetcher(most_bytes=10_000).fetch()
    assert "tasks read the input from its source" in raised.value.hint
    assert rate.inbox.epochs() == [0]


def test_it_stops_in_the_middle_of_an_epoch(rate: Received) -> None:
    rate.decide(numbers(0, 3_000_000))
    prefetcher = rate.prefetcher()
    prefetcher.start()
    wait_until((rate.spec.folder / "inbox/000000000000").exists)
    prefetcher.stop()
    prefetcher.join(2.0)
    assert not prefetcher.is_alive()
    assert not prefetcher.caught_up
    assert not rate.has(0, 3)


def test_to_fetch_the_newest_epoch_is_not_to_be_behind(rate: Received) -> None:
    looks = list[bool]()

    class WatchedInbox(Inbox):
        def write(self, *arguments: Any, **options: Any) -> int:
            looks.append(prefetcher.caught_up)
            return super().write(*arguments, **options)

    rate.decide(numbers(0, 30))
    prefetcher = rate.prefetcher(inbox=WatchedInbox(rate.spec.folder))
    prefetcher.fetch()
    looks.clear()  # nothing was fetched before that
    for first in (30, 37):
        rate.decide(numbers(first, 7))
        prefetcher.fetch()
    assert looks
    assert all(looks)
