"""What a replica measures of its query and its machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resources.control.store import ControlStore
from streaming.sampling import MACHINE_SECONDS, Sampler
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
    assert first["input_rows_per_second"] == 100.0
    assert (first["state_rows"], first["state_bytes"]) == (10.0, 1500.0)
    assert first["batch_triggerExecution_seconds"] == 0.4
    query.finish(2, 50)
    sampler.sample(query, elapsed_seconds=5.0)  # type: ignore[arg-type]
    assert values(store)["input_rows_per_second"] == 10.0


def test_a_query_that_reports_nonsense_costs_samples_and_nothing_else(store: ControlStore) -> None:
    query, sampler = ReportedQuery(), Sampler(store, "words", "words-1")
    query.recentProgress.append({"batchId": 3})
    sampler.sample(query, elapsed_seconds=1.0)  # type: ignore[arg-type]
    assert values(store) == {}


def test_what_a_replica_takes_is_written_whatever_it_does(store: ControlStore) -> None:
    clock = SteppedClock()
    sampler = Sampler(store, "words", "words-1", clock)
    clock.step(MACHINE_SECONDS - 1.0)
    sampler.tend(secondary=False)
    assert values(store) == {}
    clock.step(1.0)
    sampler.tend(secondary=False)
    sampler.tend(secondary=False)
    [sample] = store.samples.series("words", "rss_bytes")
    assert sample.value > 0
    [sample] = store.samples.series("words", "cpu_cores")
    assert sample.value >= 0.0


def test_what_a_secondary_takes_does_not_pass_for_the_primary_s(store: ControlStore) -> None:
    clock = SteppedClock()
    sampler = Sampler(store, "words", "words-2", clock)
    clock.step(MACHINE_SECONDS)
    sampler.tend(secondary=True)
    assert values(store)["secondary_rss_bytes"] > 0
    assert store.samples.series("words", "rss_bytes") == []
    clock.step(MACHINE_SECONDS)
    sampler.tend(secondary=False)  # it has taken over
    assert len(store.samples.series("words", "rss_bytes")) == 1
    assert len(store.samples.series("words", "secondary_cpu_cores")) == 1
