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


def decision_now(project: Project) -> Decision:
    return REVIEWER.decide_now(project, CLICKS)


def recorded(project: Project) -> list[tuple[Tier, str]]:
    return [(row.chosen, row.why) for row in project.store.decisions.history(CLICKS)]


def test_a_short_objective_needs_a_secondary_that_processes(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="1s", supervision=QUICK) as project:
        record_measurements(project)
        [due] = due_switches(project, REVIEWER)
        assert due.decision.chosen in (Tier.ACTIVE_REPLICATION, Tier.ACTIVE_STANDBY)
        assert due.run_key.startswith(f"{CLICKS}-{due.decision.id}-")


def test_a_tier_that_is_requested_is_no_change_until_the_stream_should_have_it(
    tmp_path: Path,
) -> None:
    auto = {"mode": "auto"}
    with a_reviewed_project(
        tmp_path, objective="1.5s", supervision=QUICK, controller=auto
    ) as project:
        record_measurements(project)
        age_last_change(project)
        asked = [due for _ in range(3) for due in due_switches(project, REVIEWER)]
        assert len(asked) == 3
        assert len({due.run_key for due in asked}) == 1
        [(chosen, why)] = recorded(project)
        assert why == "needed"
        project.store.tiers.desire(CLICKS, chosen, why="test", run="r")
        assert due_switches(project, REVIEWER) == []
        assert stream_inputs_of(project).since_change < 60.0
        assert len(recorded(project)) == 1


def test_a_decision_is_recorded_when_it_is_new_and_not_at_every_review(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as project:
        assert len(due_switches(project, REVIEWER)) == len(due_switches(project, REVIEWER)) == 1
        assert recorded(project) == [(Tier.ACTIVE_REPLICATION, "too_little_data")]
        project.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="r")
        assert due_switches(project, REVIEWER) == []
        record_measurements(project)
        [due] = due_switches(project, REVIEWER)
        assert due.decision.chosen is Tier.PASSIVE_REPLICATION
        project.store.tiers.desire(CLICKS, Tier.PASSIVE_REPLICATION, why="test", run="r")
        assert due_switches(project, REVIEWER) == []
        assert recorded(project) == [
            (Tier.ACTIVE_REPLICATION, "too_little_data"),
            (Tier.PASSIVE_REPLICATION, "saves"),
        ]


@pytest.mark.parametrize("mode", [Mode.PINNED, Mode.ADVISE])
def test_a_stream_that_is_pinned_or_advised_is_reviewed_and_left_alone(
    tmp_path: Path, mode: Mode
) -> None:
    with a_reviewed_project(
        tmp_path, objective="1s", controller={**AT_ONCE, "mode": mode.value}
    ) as project:
        record_measurements(project)
        assert due_switches(project, REVIEWER) == []
        [(chosen, _)] = recorded(project)
        assert chosen is not Tier.PASSIVE_REPLICATION


@pytest.mark.parametrize("mode", Mode)
def test_intervals_that_the_controller_may_not_set_make_no_new_decision(
    tmp_path: Path, mode: Mode
) -> None:
    changes = {"controller": {**AT_ONCE, "mode": mode.value}, "checkpoint": {"epochs": 5}}
    with a_reviewed_project(tmp_path, objective="5m", **changes) as project:
        record_measurements(project)
        lengths = set()
        for epoch in range(4):
            decide_epoch(project, epoch)
            due_switches(project, REVIEWER)
            lengths.add(decision_now(project).snapshot_every)
        assert len(lengths) > 1
        assert len(recorded(project)) == 1


def test_intervals_within_bounds_are_chosen_with_the_tier(tmp_path: Path) -> None:
    bounds = {"snapshot_every": {"min": "2s", "max": "2m"}}
    changes = {"controller": {"mode": "auto", **bounds}, "checkpoint": {"every": "2s"}}
    with a_reviewed_project(tmp_path, objective="5m", **changes) as project:
        record_measurements(project)
        age_last_change(project)
        assert due_switches(project, REVIEWER) == []
        chosen = project.store.streams.intervals(CLICKS)
        assert chosen.snapshot_every is not None
        assert chosen.snapshot_every > 2.0
        assert chosen.sync_every is None
        now = decision_now(project)
        assert now.snapshot_every == chosen.snapshot_every
        assert not now.acts
        assert stream_inputs_of(project).since_change < 60.0, "intervals are moved at once"
        due_switches(project, REVIEWER)
        assert len(recorded(project)) == 1


def test_a_record_of_another_version_is_followed_by_a_new_one(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as project:
        record_measurements(project)
        record_decision_by_hand(project, Tier.PASSIVE_REPLICATION)
        for _ in range(2):
            assert due_switches(project, REVIEWER) == []
        assert recorded(project) == [
            (Tier.PASSIVE_REPLICATION, ""),
            (Tier.PASSIVE_REPLICATION, "cheapest"),
        ]


def test_a_stream_whose_first_driver_still_starts_asks_for_no_other_tier(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="10s") as project:
        age_last_change(project)
        assert len(due_switches(project, REVIEWER)) == 1
        project.store.auditing.withdraw(CLICKS, 0, "p")
        assert due_switches(project, REVIEWER) == []
