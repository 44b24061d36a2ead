"""Migrating a stream: the target is brought up, handed the lease, or let go; whatever dies and whenever."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.playbooks.recover.compatibility import needs_trial, objections
from holdfast.ft_policies.playbooks.recover.decide import next_step, plan_recovery
from holdfast.ft_policies.playbooks.recover.migration import MigrationFacts, Protocol
from holdfast.ft_policies.tiers import OFF, PRIMARY, SECONDARY, Switch, Tier
from tests.fakes.pair import SimulatedPair, SimulatedReplica
from tests.fakes.stream import Crash

TO_TARGET = {
    Protocol.INTERRUPTION_FREE: [
        "LaunchSecondary", "TurnSwitch", "TurnSwitch", "TurnSwitch", "AwaitTarget",
        "HandOver", "AwaitTakeover", "AwaitCatchUp", "FinishMigration",
    ],
    Protocol.REPLAY: [
        "LaunchSecondary", "TurnSwitch", "TurnSwitch", "TurnSwitch", "AwaitTarget",
        "HandOver", "AwaitTakeover", "AwaitCatchUp", "FinishMigration",
    ],
    Protocol.LEGACY: ["StopPrimary", "Launch", "AwaitCatchUp", "FinishMigration"],
}  # fmt: skip


def a_pair(tier: Tier, protocol: Protocol, **facts: object) -> SimulatedPair:
    """A stream whose tier is covered, and which is to be migrated."""
    wanted = SECONDARY[tier]
    migration = MigrationFacts(number=1, protocol=protocol)
    return SimulatedPair(
        tier,
        primary=SimulatedReplica("words-p", PRIMARY, PRIMARY, caught_up=True),
        secondary=None if wanted == OFF else SimulatedReplica("words-s", wanted, wanted),
        migration=replace(migration, **facts),
    )


@pytest.mark.parametrize("protocol", Protocol)
def test_each_protocol_has_its_steps_and_they_are_planned(protocol: Protocol) -> None:
    pair = a_pair(Tier.PASSIVE_REPLICATION, protocol)
    announced = [type(step).__name__ for step in plan_recovery(pair.observed())]
    done = [type(step).__name__ for step in pair.recover()]
    assert done == TO_TARGET[protocol]
    assert announced == done
    assert pair.last_migration == 1
    assert pair.held()


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("tier", Tier)
def test_in_every_tier_both_replicas_run_the_target_in_the_end(
    protocol: Protocol, tier: Tier
) -> None:
    pair = a_pair(tier, protocol)
    for _ in pair.recover():
        pass
    assert pair.held()
    assert pair.last_migration == 1
    assert pair.secondary is None or pair.secondary.migration == 1


@pytest.mark.parametrize(
    "fault", [{"overdue": True}, {"differs": "epoch 3"}, {"failed": "no memory"}]
)
@pytest.mark.parametrize("tier", [Tier.PASSIVE_REPLICATION, Tier.ACTIVE_STANDBY])
def test_a_migration_with_a_fault_is_rolled_back_and_the_primary_has_never_stopped(
    fault: dict[str, object], tier: Tier
) -> None:
    pair = a_pair(tier, Protocol.INTERRUPTION_FREE, **fault)
    announced = [type(step).__name__ for step in plan_recovery(pair.observed())]
    names = [type(step).__name__ for step in pair.recover()]
    assert names == announced == ["RollBack"]
    assert pair.held()
    assert pair.last_migration == 0
    assert pair.primary is not None
    assert pair.primary.id == "words-p"


@pytest.mark.parametrize(
    ("caught_up", "fault"),
    [
        (False, {"overdue": True}),
        (False, {"differs": "epoch 3"}),
        (True, {"differs": "epoch 3"}),
    ],
)
def test_a_target_that_is_the_primary_already_is_replaced_at_once_by_what_ran_before(
    caught_up: bool,  # noqa: FBT001
    fault: dict[str, object],
) -> None:
    pair = a_pair(Tier.PASSIVE_REPLICATION, Protocol.REPLAY, **fault)
    pair.primary = SimulatedReplica("words-t", PRIMARY, PRIMARY, caught_up=caught_up, migration=1)
    announced = [type(step).__name__ for step in plan_recovery(pair.observed())]
    names = [type(step).__name__ for step in pair.recover()]
    assert names == announced == ["RollBack", "Fence", "Launch", "AwaitCatchUp"]
    assert pair.primary is not None
    assert pair.primary.migration == 0


@pytest.mark.parametrize(
    ("protocol", "step"),
    [(Protocol.REPLAY, "HandOver"), (Protocol.INTERRUPTION_FREE, "TurnSwitch")],
)
@pytest.mark.parametrize("paused", [True, False])
def test_only_a_replay_is_cut_short_before_its_target_has_caught_up(
    protocol: Protocol,
    step: str,
    paused: bool,  # noqa: FBT001
) -> None:
    pair = a_pair(Tier.PASSIVE_REPLICATION, protocol, caught_up=True)
    wanted = SECONDARY[Tier.ACTIVE_STANDBY]
    observed = wanted.turn(Switch.PROCESS, on=False)
    pair.secondary = SimulatedReplica("words-t", wanted, observed, migration=1, paused=paused)
    expected = "AwaitTarget" if paused and protocol is not Protocol.REPLAY else step
    assert type(next_step(pair.observed())).__name__ == expected


def test_a_target_that_has_caught_up_at_last_is_kept_though_it_was_late() -> None:
    pair = a_pair(Tier.PASSIVE_REPLICATION, Protocol.REPLAY, overdue=True)
    pair.primary = SimulatedReplica("words-t", PRIMARY, PRIMARY, caught_up=True, migration=1)
    assert [type(step).__name__ for step in pair.recover()] == ["FinishMigration"]


EVENTS = st.sampled_from(
    ["kill primary", "kill secondary", "take over", "follow", "catch up", "overdue"]
)


@given(
    st.sampled_from(Tier),
    st.sampled_from(Protocol),
    st.lists(st.lists(EVENTS, max_size=2), max_size=14),
    st.lists(st.sampled_from(["lives", "before", "amid", "after"]), max_size=14),
)
def test_a_migration_ends_with_all_replicas_alike_whatever_dies_and_whenever(
    tier: Tier, protocol: Protocol, troubles: list[list[str]], fates: list[str]
) -> None:
    pair = a_pair(tier, protocol)
    pair.fates = list(fates)
    for trouble in troubles:
        for event in trouble:
            pair.befall(event)
        with suppress(Crash):
            next(pair.recover(), None)
    pair.fates = []
    steps = list(zip(range(60), pair.recover(), strict=False))
    assert len(steps) < 60
    assert pair.held(), pair
    assert pair.secondary is None or pair.secondary.migration == pair.last_migration


SOURCE = {
    "app": "words:build",
    "params": {},
    "source": {"kind": "files", "path": "in"},
    "sink": {"kind": "delta", "path": "out"},
    "output_mode": "append",
    "resources": {"driver_memory": "1g", "spark_conf": {}},
}


def test_what_a_checkpoint_does_not_survive_is_refused_with_what_to_do_instead() -> None:
    target = {**SOURCE, "output_mode": "update", "source": {"kind": "rate"}}
    refused = objections(
        SOURCE,
        target,
        source_conf={"spark.sql.shuffle.partitions": "2"},
        target_conf={"spark.sql.shuffle.partitions": "4"},
    )
    assert [objection.field for objection in refused] == [
        "source",
        "output_mode",
        "spark.sql.shuffle.partitions",
    ]
    assert "declare a new stream" in str(refused[0])
    same = {"spark.sql.shuffle.partitions": "2"}
    assert objections(SOURCE, SOURCE, source_conf=same, target_conf=same) == []


def test_a_promise_about_a_sink_may_be_made_later_but_the_sink_stays() -> None:
    sink = {"kind": "callable", "function": "out:write", "idempotent": False}
    source = {**SOURCE, "sink": sink}

    def objected(**changes: object) -> list[str]:
        target = {**SOURCE, "sink": {**sink, **changes}}
        return [
            objection.field
            for objection in objections(source, target, source_conf={}, target_conf={})
        ]

    assert objected(idempotent=True) == []
    assert objected(idempotent=True, function="out:other") == ["sink"]


def test_only_another_query_needs_a_trial() -> None:
    larger = {**SOURCE, "resources": {"driver_memory": "2g", "spark_conf": {}}}
    assert not needs_trial(SOURCE, larger)
    assert needs_trial(SOURCE, {**SOURCE, "params": {"n": 1}})
    conf = {"driver_memory": "1g", "spark_conf": {"spark.sql.ansi.enabled": "true"}}
    assert needs_trial(SOURCE, {**SOURCE, "resources": conf})
