"""What streams have done recently."""

import pytest

from holdfast.ft_policies.tiers import Tier
from holdfast.resources.control_store.records import (
    EndedBy,
    ReplicaState,
    Sample,
    Slot,
    SnapshotState,
)
from holdfast.resources.control_store.schema import tier_changes
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.recent import (
    EPOCHS,
    SETTLING_SECONDS,
    SHIPPED_EPOCHS,
    STEADY_SECONDS,
)
from tests.builders.control_rows import a_snapshot, decide, register, set_decision_time


def declared(store: ControlStore, *names: str) -> None:
    for name in names:
        store.streams.declare(name, {}, "deployed")


def sampled(store: ControlStore, name: str, *values: tuple[float, float]) -> None:
    store.samples.write(
        [Sample(stream="words", replica="r1", name=name, at=at, value=v) for at, v in values]
    )


def had_tier(store: ControlStore, tier: Tier, *, at: float, reached_at: float | None) -> None:
    line = {"stream": "words", "at": at, "tier_to": tier, "why": "", "run": ""}
    store._database.execute(tier_changes.insert().values(**line, reached_at=reached_at))


class TestRecentActivity:
    def test_the_last_epochs_are_seen_in_two_halves(self, store: ControlStore) -> None:
        declared(store, "words", "others", "new")
        decide(store, 3 * EPOCHS)
        decide(store, 3, stream="others")
        set_decision_time(store, "words", 2.0)
        set_decision_time(store, "others", 1.0)
        inputs = store.recent.inputs(None)
        assert inputs.keys() == {"words", "others"}
        words, others = inputs["words"], inputs["others"]
        half = EPOCHS // 2
        assert (words.epochs, words.rows, words.rows_before) == (EPOCHS + 1, 10 * half, 10 * half)
        assert (words.seconds, words.seconds_before) == (2.0 * half, 2.0 * half)
        assert (others.rows, others.seconds, others.seconds_before) == (30, 2.0, 0.0)
        assert store.recent.inputs("others") == {"others": others}
        assert store.recent.inputs("unknown") == {}

    def test_the_newest_snapshots_are_seen_dropped_or_not(self, store: ControlStore) -> None:
        declared(store, "words", "others")
        for epoch in (0, 500, 500 + SHIPPED_EPOCHS):
            store.snapshots.record(a_snapshot(f"s{epoch}", epoch, created_at=float(epoch + 1)))
        store.snapshots.mark("words", "s500", SnapshotState.DROPPED, "old")
        store.snapshots.record(a_snapshot("t1", 1, stream="others"))
        shipments = store.recent.shipments(None)
        shipped = [
            (shipment.epoch, shipment.total_bytes, shipment.kept) for shipment in shipments["words"]
        ]
        assert shipped == [(500, 300, False), (500 + SHIPPED_EPOCHS, 300, True)]
        assert len(shipments["others"]) == 1
        assert store.recent.shipments("words") == {"words": shipments["words"]}

    def test_samples_of_some_names_are_seen_in_order(self, store: ControlStore) -> None:
        declared(store, "words")
        sampled(store, "lag", (2.0, 20.0), (1.0, 10.0))
        sampled(store, "speed", (1.5, 5.0))
        sampled(store, "other", (1.0, 1.0))
        samples = store.recent.series(["lag", "speed"], None)["words"]
        assert [sample.value for sample in samples] == [10.0, 5.0, 20.0]
        assert store.recent.series(["lag"], "unknown") == {}

    def test_samples_are_levelled_over_a_while(self, store: ControlStore) -> None:
        declared(store, "words")
        sampled(store, "cpu_cores", (1.0, 9.0), (2.0, 1.0), (3.0, 2.0))
        level = store.recent.levels(["cpu_cores"], "words", since_at=2.0)["words"]["cpu_cores"]
        assert (level.mean, level.most) == (1.5, 2.0)

    def test_each_tier_is_levelled_at_the_end_of_its_last_long_stay(
        self, store: ControlStore
    ) -> None:
        declared(store, "words")
        store._database.execute(tier_changes.delete())
        long = SETTLING_SECONDS + STEADY_SECONDS
        had_tier(store, Tier.DEPLOYED, at=0.0, reached_at=10.0)
        had_tier(store, Tier.ACTIVE_STANDBY, at=1000.0, reached_at=1010.0)
        had_tier(store, Tier.DEPLOYED, at=2000.0, reached_at=2010.0)
        had_tier(store, Tier.ACTIVE_REPLICATION, at=2010.0 + long - 1.0, reached_at=None)
        sampled(store, "cpu_cores", (990.0, 1.0), (1000.0 - STEADY_SECONDS - 1.0, 7.0))
        sampled(store, "cpu_cores", (1990.0, 2.0), (1995.0, 4.0), (2020.0, 8.0))
        by_tier = store.recent.levels_of_tiers(["cpu_cores"], None)["words"]
        means = {tier: levels["cpu_cores"].mean for tier, levels in by_tier.items()}
        assert means == {Tier.DEPLOYED: 1.0, Tier.ACTIVE_STANDBY: 3.0}
        assert store.recent.levels_of_tiers(["cpu_cores"], "unknown") == {}

    def test_the_tier_of_now_is_levelled_up_to_now(self, store: ControlStore) -> None:
        declared(store, "words")
        store._database.execute(tier_changes.delete())
        now = store.now()
        had_tier(store, Tier.DEPLOYED, at=now - 500.0, reached_at=now - 400.0)
        sampled(store, "cpu_cores", (now - 5.0, 2.0), (now - 300.0, 9.0))
        by_tier = store.recent.levels_of_tiers(["cpu_cores"], "words")["words"]
        assert by_tier[Tier.DEPLOYED]["cpu_cores"].mean == 2.0

    def test_primaries_are_seen_live_or_not_and_hosts_with_their_share(
        self, store: ControlStore
    ) -> None:
        declared(store, "words")
        register(store, "r1")
        register(store, "r2", slot=Slot.SECONDARY)
        store.replicas.end("r1", ReplicaState.FENCED, "silent", by=EndedBy.REPLICA)
        register(store, "r3")
        first, second = store.recent.primaries(None, since_at=0.0)["words"]
        assert (first.replica, first.state) == ("r1", ReplicaState.FENCED)
        assert first.ended_at == pytest.approx(store.now(), abs=30)
        assert (second.replica, second.host, second.ended_at) == ("r3", "here", None)
        assert store.recent.live_per_host() == {"here": 2}
        later = store.recent.primaries("words", since_at=store.now() + 60.0)["words"]
        assert later == [second], "who has ended is of the past, who lives is not"
