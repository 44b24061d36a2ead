"""Declared streams: what they declare, their tier, and how often they ship."""

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import Tier
from holdfast.resources.control_store.records import DesiredState
from holdfast.resources.control_store.store import ControlStore


class TestStreams:
    def test_a_new_stream_is_stopped_until_it_is_wanted(self, store: ControlStore) -> None:
        row = store.streams.declare("words", {"name": "words", "rate": 1.5}, "deployed")
        assert row.desired is DesiredState.STOPPED
        assert row.declaration == {"name": "words", "rate": 1.5}
        assert store.streams.get("words") == row

    def test_a_changed_declaration_keeps_what_is_desired(self, store: ControlStore) -> None:
        first = store.streams.declare("words", {"rate": 1}, "deployed")
        store.streams.desire("words", DesiredState.RUNNING)
        second = store.streams.declare("words", {"rate": 2}, "active_standby")
        assert (second.desired, second.tier) == (DesiredState.RUNNING, "active_standby")
        assert second.declaration == {"rate": 2}
        assert second.declared_at == first.declared_at
        assert second.changed_at >= first.changed_at

    def test_declaring_the_same_again_changes_nothing(self, store: ControlStore) -> None:
        first = store.streams.declare("words", {"rate": 1}, "deployed")
        assert store.streams.declare("words", {"rate": 1}, "deployed") == first

    def test_all_streams_come_by_name(self, store: ControlStore) -> None:
        for name in ("b", "a"):
            store.streams.declare(name, {}, "deployed")
        assert [row.name for row in store.streams.all()] == ["a", "b"]

    def test_an_undeclared_stream_cannot_be_desired(self, store: ControlStore) -> None:
        assert store.streams.get("words") is None
        with pytest.raises(PermanentError, match="no stream"):
            store.streams.desire("words", DesiredState.RUNNING)


def switched(store: ControlStore, tier: str) -> None:
    assert store.tiers.desire("words", tier, why="asked", run="run-1") is not None


def changes(store: ControlStore) -> list[tuple[str | None, str, str]]:
    return [(c.tier_from, c.tier_to, c.why) for c in store.tiers.history("words")]


def tiers(store: ControlStore) -> tuple[Tier, Tier]:
    row = store.streams.get("words")
    assert row is not None
    return row.declared_tier, row.tier


class TestTiers:
    def test_a_history_begins_with_the_declaration(self, store: ControlStore) -> None:
        row = store.streams.declare("words", {}, Tier.DEPLOYED)
        [first] = store.tiers.history("words")
        assert (first.stream, first.tier_from, first.tier_to) == ("words", None, Tier.DEPLOYED)
        assert (first.why, first.run, first.reached_at) == ("declared", "", None)
        assert first.at == pytest.approx(row.declared_at, abs=1.0)
        assert row.tier is row.declared_tier is first.tier_to is Tier.DEPLOYED

    def test_a_switch_is_noted_with_who_and_why(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        store.streams.desire("words", DesiredState.RUNNING)
        change = store.tiers.desire("words", "active_standby", why="faster", run="run-7")
        assert change is not None
        assert change == store.tiers.history("words")[-1]
        assert (change.tier_from, change.tier_to) == (Tier.DEPLOYED, Tier.ACTIVE_STANDBY)
        assert (change.why, change.run, change.reached_at) == ("faster", "run-7", None)
        row = store.streams.get("words")
        assert row is not None
        assert (row.tier, row.desired) == (Tier.ACTIVE_STANDBY, DesiredState.RUNNING)

    def test_wanting_what_is_wanted_changes_nothing(self, store: ControlStore) -> None:
        row = store.streams.declare("words", {}, "deployed")
        assert store.tiers.desire("words", "deployed", why="asked", run="r") is None
        assert store.streams.get("words") == row
        assert len(store.tiers.history("words")) == 1

    def test_declaring_the_same_again_does_not_undo_a_switch(self, store: ControlStore) -> None:
        store.streams.declare("words", {"rate": 1}, "deployed")
        switched(store, "active_standby")
        store.streams.declare("words", {"rate": 1}, "deployed")
        store.streams.declare("words", {"rate": 2}, "deployed")
        assert tiers(store) == (Tier.DEPLOYED, Tier.ACTIVE_STANDBY)
        assert len(store.tiers.history("words")) == 2

    def test_a_declaration_that_names_another_tier_is_a_switch(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        switched(store, "active_standby")
        store.streams.declare("words", {}, "passive_replication")
        assert tiers(store) == (Tier.PASSIVE_REPLICATION, Tier.PASSIVE_REPLICATION)
        assert changes(store) == [
            (None, "deployed", "declared"),
            ("deployed", "active_standby", "asked"),
            ("active_standby", "passive_replication", "declared"),
        ]

    def test_pinning_the_tier_that_was_the_default_undoes_what_was_chosen(
        self, store: ControlStore
    ) -> None:
        store.streams.declare("words", {"controller": {"mode": "auto"}}, "passive_replication")
        switched(store, "active_replication")
        pinned = {"controller": {"mode": "pinned"}}
        store.streams.declare("words", pinned, "passive_replication")
        assert tiers(store) == (Tier.PASSIVE_REPLICATION, Tier.PASSIVE_REPLICATION)
        switched(store, "deployed")
        store.streams.declare("words", pinned | {"rate": 2}, "passive_replication")
        assert tiers(store) == (Tier.PASSIVE_REPLICATION, Tier.DEPLOYED)

    def test_a_declaration_that_follows_a_switch_is_none_itself(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        switched(store, "active_standby")
        store.streams.declare("words", {}, "active_standby")
        assert len(store.tiers.history("words")) == 2
        switched(store, "deployed")
        store.streams.declare("words", {}, "active_standby")
        assert tiers(store) == (Tier.ACTIVE_STANDBY, Tier.DEPLOYED)

    def test_the_newest_change_is_reached_once(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        assert store.tiers.record_reached("words", tier="deployed")
        [first] = store.tiers.history("words")
        assert first.reached_at == pytest.approx(store.now(), abs=30)
        assert not store.tiers.record_reached("words", tier="deployed")
        assert store.tiers.history("words") == [first]
        switched(store, "active_standby")
        switched(store, "passive_standby_hot")
        assert store.tiers.record_reached("words", tier="passive_standby_hot")
        reached = [change.reached_at is not None for change in store.tiers.history("words")]
        assert reached == [True, False, True]

    def test_a_tier_given_up_before_it_was_reached_is_not_noted(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        switched(store, "active_standby")
        assert not store.tiers.record_reached("words", tier="deployed")
        assert store.tiers.record_reached("words", tier="active_standby")
        assert not store.tiers.record_reached("unknown", tier="deployed")

    def test_a_history_is_of_one_stream_and_keeps_the_newest(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        store.streams.declare("others", {}, "deployed")
        switched(store, "active_standby")
        switched(store, "active_replication")
        assert [c.tier_to for c in store.tiers.history("words", limit=2)] == [
            Tier.ACTIVE_STANDBY,
            Tier.ACTIVE_REPLICATION,
        ]
        assert len(store.tiers.history("others")) == 1
        assert store.tiers.history("unknown") == []

    def test_what_is_no_stream_or_no_tier_is_refused(self, store: ControlStore) -> None:
        with pytest.raises(PermanentError, match="no stream"):
            store.tiers.desire("words", "deployed", why="asked", run="r")
        row = store.streams.declare("words", {}, "deployed")
        with pytest.raises(PermanentError, match="hottest"):
            store.tiers.desire("words", "hottest", why="asked", run="r")
        with pytest.raises(PermanentError, match="hottest"):
            store.streams.declare("words", {}, "hottest")
        assert store.streams.get("words") == row
        assert len(store.tiers.history("words")) == 1


def intervals(store: ControlStore, stream: str = "words") -> tuple[float | None, float | None]:
    intervals = store.streams.intervals(stream)
    return intervals.snapshot_every, intervals.sync_every


class TestPace:
    def test_intervals_are_as_declared_until_others_are_set(self, store: ControlStore) -> None:
        row = store.streams.declare("words", {}, "deployed")
        assert (row.snapshot_every, row.sync_every) == intervals(store) == (None, None)
        assert intervals(store, "unknown") == (None, None)
        store.streams.set_intervals("words", snapshot_every=7.5, sync_every=2.0)
        assert intervals(store) == (7.5, 2.0)
        again = store.streams.get("words")
        assert again is not None
        assert (again.snapshot_every, again.changed_at) == (7.5, row.changed_at)
        store.streams.set_intervals("words", snapshot_every=None, sync_every=3.0)
        assert intervals(store) == (None, 3.0)

    def test_a_new_declaration_brings_its_own_intervals(self, store: ControlStore) -> None:
        store.streams.declare("words", {"every": 10}, "deployed")
        store.streams.set_intervals("words", snapshot_every=7.5, sync_every=None)
        store.streams.declare("words", {"every": 10}, "deployed")
        assert intervals(store) == (7.5, None)
        store.streams.declare("words", {"every": 20}, "deployed")
        assert intervals(store) == (None, None)

    def test_a_switch_leaves_the_intervals(self, store: ControlStore) -> None:
        store.streams.declare("words", {}, "deployed")
        store.streams.set_intervals("words", snapshot_every=7.5, sync_every=None)
        store.tiers.desire("words", "active_standby", why="asked", run="r")
        assert intervals(store) == (7.5, None)

    def test_what_is_no_stream_has_no_pace(self, store: ControlStore) -> None:
        with pytest.raises(PermanentError, match="no stream"):
            store.streams.set_intervals("words", snapshot_every=7.5, sync_every=None)
