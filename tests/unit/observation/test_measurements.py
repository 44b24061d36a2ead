"""From the control store to what the models take: step_timings, load, use."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.costs.prices import TierShares
from holdfast.ft_policies.prediction.model import RecoveryModel, StateAges
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.measurements import StreamMeasurements, measure
from holdfast.resources.control_store.records import Sample, Slot
from holdfast.resources.control_store.schema import tier_changes
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_snapshot, decide, register, set_decision_time
from tests.builders.projects import a_declaration
from tests.builders.reviews import STEPS

WORDS = a_declaration(name="words")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


def sampled(store: ControlStore, *, by: str, stream: str = "words", **values: float) -> None:
    at = store.now() - 1.0
    store.samples.write(
        [
            Sample(stream=stream, replica=by, name=name, value=value, epoch=9, at=at)
            for name, value in values.items()
        ]
    )


def started(store: ControlStore, stream: str = "words") -> None:
    """A primary that has been launched and has decided some epochs."""
    store.streams.declare(stream, {}, "passive_replication")
    register(store, f"{stream}-1", stream=stream)
    decide(store, 41, stream=stream)
    set_decision_time(store, stream, 2.0)
    sampled(store, by=f"{stream}-1", stream=stream, **STEPS)


def measured(store: ControlStore, declared: StreamDeclaration = WORDS) -> StreamMeasurements:
    return measure(store, [declared])[declared.name]


def test_a_stream_that_never_ran_is_what_is_declared(store: ControlStore) -> None:
    measurements = measured(store)
    assert measurements.load.rows_per_second == measurements.load.state_bytes == 0.0
    assert measurements.load.epoch_seconds == 1.0
    assert (measurements.primary.cpu_cores, measurements.primary.instances) == (0.0, 1.0)
    assert measurements.recoveries == ()
    steps = measurements.step_timings.steps
    assert {step for step in steps if steps[step]} == {RecoveryStep.DETECT}
    assert measurements.load_in(60.0) == measurements.load


def test_one_start_is_enough_to_predict_every_tier(store: ControlStore) -> None:
    started(store)
    measurements = measured(store)
    prediction = RecoveryModel().predict(
        measurements.step_timings,
        measurements.load,
        snapshot_every=10.0,
        sync_every=5.0,
        ship_seconds=0.1,
    )
    assert prediction.missing == ()
    assert np.isfinite(prediction.seconds).all()


def test_a_start_that_read_nothing_does_not_make_a_large_state_quick_to_read(
    store: ControlStore,
) -> None:
    started(store)
    sampled(store, by="words-1", read_snapshot_bytes=0.0)  # of two for an epoch the newer counts
    before = measured(store)
    assert RecoveryModel().fit(before.step_timings).missing == (RecoveryStep.READ_SNAPSHOT,)
    store.snapshots.record(a_snapshot("s1", 1, total_bytes=10**6, new_bytes=10**6, seconds=0.5))
    after = measured(store)
    assert RecoveryModel().fit(after.step_timings).missing == ()
    deployed = list(Tier).index(Tier.DEPLOYED)

    def seconds(state_bytes: float) -> float:
        load = replace(after.load, state_bytes=state_bytes)
        ages = StateAges(snapshot=10.0, sync=5.0)
        return float(RecoveryModel().predict_at(after.step_timings, load, ages).seconds[deployed])

    assert seconds(5e8) > seconds(0.0) + 200.0, "it wrote 1 MB in half a second"


def test_the_load_is_that_of_the_newest_epochs(store: ControlStore) -> None:
    started(store)
    sampled(store, by="words-1", processed_rows_per_second=80.0)
    load = measured(store).load
    assert (load.rows_per_second, load.epoch_seconds) == (5.0, 2.0)
    assert load.capacity_rows_per_second == 80.0


def test_the_slowest_commit_of_the_last_minute_is_measured_and_stays_in_what_comes(
    store: ControlStore,
) -> None:
    started(store)
    assert measured(store).load.commit_seconds == 0.0
    for replica, seconds in (("r1", 0.2), ("r2", 1.5), ("r3", 0.3)):
        sampled(store, by=replica, commit_seconds=seconds)
    assert measured(store).load.commit_seconds == 1.5
    assert measured(store).load_in(60.0).commit_seconds == 1.5


def test_a_load_that_changes_is_predicted(store: ControlStore) -> None:
    started(store)
    for number in range(4):
        store.snapshots.record(
            a_snapshot(f"s{number}", number, total_bytes=1000 * (number + 1), created_at=10.0 * number + 1)
        )  # fmt: skip
    measurements = measured(store)
    assert measurements.load.state_bytes == 4000.0
    assert measurements.growth.state_bytes == pytest.approx(2 * 2000.0 / 30.0)
    assert measurements.load_in(30.0).state_bytes == pytest.approx(8000.0)
    assert measurements.load_in(30.0).rows_per_second == measurements.load.rows_per_second == 5.0
    assert measurements.load_in(-1e6).state_bytes == 0.0


def test_snapshots_are_measured_by_what_they_cost(store: ControlStore) -> None:
    started(store)
    now = store.now()
    for number, seconds in enumerate((0.5, 1.5)):
        store.snapshots.record(
            a_snapshot(f"s{number}", number, seconds=seconds, created_at=now - 20.0 + 10.0 * number)
        )
    sampled(store, by="words-2", sync_seconds=0.4, sync_requests=3.0)
    measurements = measured(store)
    assert (measurements.ship_seconds, measurements.sync_seconds) == (1.5, 0.4)
    assert (measurements.requests_per_snapshot, measurements.requests_per_sync) == (2.0, 3.0)
    assert measurements.new_state_bytes_per_second == pytest.approx(3.0)
    assert measurements.snapshot_age_seconds == pytest.approx(10.0, abs=5.0)
    assert measurements.stored_bytes == 330.0
    assert [(write.size, write.seconds) for write in measurements.step_timings.writes] == [
        (30.0, 0.5),
        (30.0, 1.5),
    ]


def test_the_use_of_the_primary_and_the_share_of_the_secondary(store: ControlStore) -> None:
    started(store)
    register(store, "words-2", slot=Slot.SECONDARY)
    now = store.now()
    reached = tier_changes.update().values(
        tier_to=Tier.DEPLOYED, at=now - 300, reached_at=now - 200
    )
    store._database.execute(reached)
    sampled(store, by="words-1", cpu_cores=0.8, rss_bytes=2e9)
    traffic = {"sent": 600.0, "received": 400.0}
    network = {f"host_network_{way}_bytes_per_second": value for way, value in traffic.items()}
    sampled(store, by="words-1", **network)
    sampled(store, by="words-2", secondary_cpu_cores=0.2, secondary_rss_bytes=1e9)
    measurements = measured(store)
    assert (measurements.primary.cpu_cores, measurements.primary.memory_bytes) == (0.8, 2e9)
    assert measurements.primary.network_bytes_per_second == 500.0  # two replicas share the host
    assert measurements.shares == {Tier.DEPLOYED: (pytest.approx(0.25), 0.5)}
    ones = np.ones(len(Tier))
    shares = measurements.shares_over(TierShares(cpu=ones, memory=ones, network=ones))
    there = list(Tier).index(Tier.DEPLOYED)
    assert (shares.cpu[there], shares.memory[there], shares.network[there]) == (0.25, 0.5, 1.0)
    assert shares.cpu[0] == 1.0


def test_many_streams_take_no_more_queries_than_one(store: ControlStore) -> None:
    names = [f"words_{number}" for number in range(5)]
    for name in names:
        started(store, name)
    count: list[str] = []
    sa.event.listen(
        store._database.engine,
        "before_cursor_execute",
        lambda _c, _cursor, statement, *_: count.append(statement),
    )
    together = measure(store, [a_declaration(name=name) for name in names])
    of_all = len(count)
    alone = measure(store, [a_declaration(name=names[3])])
    assert len(count) == 2 * of_all
    assert of_all <= 10
    assert together.keys() == set(names)
    assert alone[names[3]].step_timings == together[names[3]].step_timings
    assert alone[names[3]].load == together[names[3]].load
