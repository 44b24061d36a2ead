"""What a replica measures of its query and its machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.metrics import MACHINE_SECONDS, Sampler
from tests.fakes.clocks import SteppedClock


class ReportedQuery:
    """A query as far as the sampler sees it: the progress of its last batches."""

    def __init__(self) -> None:
        self.recentProgress: list[dict[str, Any]] = []

    def finish(self, batch: int, rows: int) -> None:
        self.recentProgress.append(
            {
                "batchId": batch,
                "numInputRows": rows,
                "processedRowsPerSecond": 500.0,
                "durationMs": {"triggerExecution": 400, "addBatch": 300},
                "stateOperators": [
                    {"numRowsTotal": 7, "memoryUsedBytes": 1000},
                    {"numRowsTotal": 3, "memoryUsedBytes": 500},
                ],
            }
        )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


def values(store: ControlStore) -> dict[str, float]:
    return {name: sample.value for name, sample in store.samples.latest("words").items()}


def test_rows_are_counted_over_all_batches_since_the_last_look(store: ControlStore) -> None:
    query, sampler = ReportedQuery(), Sampler(store, "words", "words-1")
    query.finish(0, 100)
    query.finish(1, 300)
    sampler.sample(query, elapsed_seconds=4.0)  # type: ignore[arg-type]
    first = values(store)
    assert first[SampleName.INPUT_ROWS_PER_SECOND] == 100.0
    assert (first[SampleName.STATE_ROWS], first[SampleName.STATE_BYTES]) == (10.0, 1500.0)
    assert first[SampleName.BATCH_SECONDS] == 0.4
    query.finish(2, 50)
    sampler.sample(query, elapsed_seconds=5.0)  # type: ignore[arg-type]
    assert values(store)[SampleName.INPUT_ROWS_PER_SECOND] == 10.0


def test_a_query_that_reports_nonsense_costs_samples_and_nothing_else(store: ControlStore) -> None:
    query, sampler = ReportedQuery(), Sampler(store, "words", "words-1")
    query.recentProgress.append({"batchId": 3})
    sampler.sample(query, elapsed_seconds=1.0)  # type: ignore[arg-type]
    assert values(store) == {}


def test_what_a_replica_takes_is_written_whatever_it_does(store: ControlStore) -> None:
    clock = SteppedClock()
    sampler = Sampler(store, "words", "words-1", clock)
    clock.step(MACHINE_SECONDS - 1.0)
    sampler.sample_machine(secondary=False)
    assert values(store) == {}
    clock.step(1.0)
    sampler.sample_machine(secondary=False)
    sampler.sample_machine(secondary=False)
    [sample] = store.samples.series("words", SampleName.RSS_BYTES)
    assert sample.value > 0
    [sample] = store.samples.series("words", SampleName.CPU_CORES)
    assert sample.value >= 0.0


def test_what_a_secondary_takes_does_not_pass_for_the_primary_s(store: ControlStore) -> None:
    clock = SteppedClock()
    sampler = Sampler(store, "words", "words-2", clock)
    clock.step(MACHINE_SECONDS)
    sampler.sample_machine(secondary=True)
    assert values(store)[SampleName.SECONDARY_RSS_BYTES] > 0
    assert store.samples.series("words", SampleName.RSS_BYTES) == []
    clock.step(MACHINE_SECONDS)
    sampler.sample_machine(secondary=False)  # it has taken over
    assert len(store.samples.series("words", SampleName.RSS_BYTES)) == 1
    assert len(store.samples.series("words", SampleName.SECONDARY_CPU_CORES)) == 1


class Counted(NamedTuple):
    bytes_sent: int
    bytes_recv: int


class Nic(NamedTuple):
    flags: str


def test_what_a_host_says_to_itself_is_no_traffic(store: ControlStore) -> None:
    counted = {"lo": Counted(0, 0), "eth0": Counted(1_000, 5_000), "tun0": Counted(0, 0)}
    nics = {"lo": Nic("up,loopback,running"), "eth0": Nic("up,broadcast,running")}
    clock = SteppedClock()
    sampler = Sampler(store, "words", "words-1", clock, lambda: (dict(counted), nics))
    counted |= {"lo": Counted(9_000, 9_000), "eth0": Counted(2_000, 8_000), "tun0": Counted(500, 0)}
    clock.step(MACHINE_SECONDS)
    sampler.sample_machine(secondary=False)
    assert values(store)[SampleName.HOST_SENT_BYTES_PER_SECOND] == 1_500 / MACHINE_SECONDS
    assert values(store)[SampleName.HOST_RECEIVED_BYTES_PER_SECOND] == 3_000 / MACHINE_SECONDS
    del counted["eth0"]
    clock.step(MACHINE_SECONDS)
    sampler.sample_machine(secondary=False)  # a network that is gone gives nothing back
    assert values(store)[SampleName.HOST_SENT_BYTES_PER_SECOND] == 0.0
