"""New decisions are recorded once, and their switches requested until they are done."""

from pathlib import Path

import pytest

from holdfast.ft_policies.tiering.decision import Decision
from holdfast.ft_policies.tiers import Mode, Tier
from holdfast.orchestration.sensors.tier_review import due_switches
from holdfast.resources.project import Project
from tests.builders.reviews import (
    AT_ONCE,
    QUICK,
    REVIEWER,
    a_reviewed_project,
    age_last_change,
    record_decision_by_hand,
    record_measurements,
    stream_inputs_of,
)
from tests.builders.streams import CLICKS, decide_epoch


def decision_now(world: Project) -> Decision:
    return REVIEWER.decide_now(world, CLICKS)


def recorded(world: Project) -> list[tuple[Tier, str]]:
    return [(row.chosen, row.why) for row in world.store.decisions.history(CLICKS)]


def test_a_short_objective_needs_a_secondary_that_processes(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="1s", supervision=QUICK) as world:
        record_measurements(world)
        [due] = due_switches(world, REVIEWER)
        assert due.decision.chosen in (Tier.ACTIVE_REPLICATION, Tier.ACTIVE_STANDBY)
        assert due.run_key.startswith(f"{CLICKS}-{due.decision.id}-")


def test_a_tier_that_is_requested_is_no_change_until_the_stream_should_have_it(
    tmp_path: Path,
) -> None:
    auto = {"mode": "auto"}
    with a_reviewed_project(tmp_path, objective="1s", supervision=QUICK, controller=auto) as world:
        record_measurements(world)
        age_last_change(world)
        asked = [due for _ in range(3) for due in due_switches(world, REVIEWER)]
        assert len(asked) == 3
        assert len({due.run_key for due in asked}) == 1
        [(chosen, why)] = recorded(world)
        assert why == "needed"
        world.store.tiers.desire(CLICKS, chosen, why="test", run="r")
        assert due_switches(world, REVIEWER) == []
        assert stream_inputs_of(world).since_change < 60.0
        assert len(recorded(world)) == 1


def test_a_decision_is_recorded_when_it_is_new_and_not_at_every_review(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as world:
        assert len(due_switches(world, REVIEWER)) == len(due_switches(world, REVIEWER)) == 1
        assert recorded(world) == [(Tier.ACTIVE_REPLICATION, "too_little_data")]
        world.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="r")
        assert due_switches(world, REVIEWER) == []
        record_measurements(world)
        [due] = due_switches(world, REVIEWER)
        assert due.decision.chosen is Tier.PASSIVE_REPLICATION
        world.store.tiers.desire(CLICKS, Tier.PASSIVE_REPLICATION, why="test", run="r")
        assert due_switches(world, REVIEWER) == []
        assert recorded(world) == [
            (Tier.ACTIVE_REPLICATION, "too_little_data"),
            (Tier.PASSIVE_REPLICATION, "saves"),
        ]


@pytest.mark.parametrize("mode", [Mode.PINNED, Mode.ADVISE])
def test_a_stream_that_is_pinned_or_advised_is_reviewed_and_left_alone(
    tmp_path: Path, mode: Mode
) -> None:
    with a_reviewed_project(
        tmp_path, objective="1s", controller={**AT_ONCE, "mode": mode.value}
    ) as world:
        record_measurements(world)
        assert due_switches(world, REVIEWER) == []
        [(chosen, _)] = recorded(world)
        assert chosen is not Tier.PASSIVE_REPLICATION


@pytest.mark.parametrize("mode", Mode)
def test_intervals_that_the_controller_may_not_set_make_no_new_decision(
    tmp_path: Path, mode: Mode
) -> None:
    changes = {"controller": {**AT_ONCE, "mode": mode.value}, "checkpoint": {"epochs": 5}}
    with a_reviewed_project(tmp_path, objective="5m", **changes) as world:
        record_measurements(world)
        lengths = set()
        for epoch in range(4):
            decide_epoch(world, epoch)
            due_switches(world, REVIEWER)
            lengths.add(decision_now(world).snapshot_every)
        assert len(lengths) > 1
        assert len(recorded(world)) == 1


def test_intervals_within_bounds_are_chosen_with_the_tier(tmp_path: Path) -> None:
    bounds = {"snapshot_every": {"min": "2s", "max": "2m"}}
    changes = {"controller": {"mode": "auto", **bounds}, "checkpoint": {"every": "2s"}}
    with a_reviewed_project(tmp_path, objective="5m", **changes) as world:
        record_measurements(world)
        age_last_change(world)
        assert due_switches(world, REVIEWER) == []
        chosen = world.store.streams.intervals(CLICKS)
        assert chosen.snapshot_every is not None
        assert chosen.snapshot_every > 2.0
        assert chosen.sync_every is None
        now = decision_now(world)
        assert now.snapshot_every == chosen.snapshot_every
        assert not now.acts
        assert stream_inputs_of(world).since_change < 60.0, "intervals are moved at once"
        due_switches(world, REVIEWER)
        assert len(recorded(world)) == 1


def test_a_record_of_another_version_is_followed_by_a_new_one(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as world:
        record_measurements(world)
        record_decision_by_hand(world, Tier.PASSIVE_REPLICATION)
        for _ in range(2):
            assert due_switches(world, REVIEWER) == []
        assert recorded(world) == [
            (Tier.PASSIVE_REPLICATION, ""),
            (Tier.PASSIVE_REPLICATION, "cheapest"),
        ]
