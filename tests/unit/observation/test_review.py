"""The review: from what was measured to a tier for each stream."""

from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.estimators import Observation
from holdfast.ft_policies.prediction.steps import TIERS, RecoveryStep
from holdfast.ft_policies.tiering.controller import Why
from holdfast.ft_policies.tiering.decision import Decision
from holdfast.ft_policies.tiers import Tier
from holdfast.ft_policies.timings import Timings
from holdfast.observation import recovery_history
from holdfast.observation.reports import recoveries
from holdfast.observation.review import (
    Reviewer,
    choose,
)
from holdfast.orchestration.sensors.tier_review import (
    is_new_decision,
    record_decision,
)
from holdfast.resources.project import Project
from tests.builders.control_rows import a_snapshot
from tests.builders.reports import record_outage, record_takeover
from tests.builders.reviews import (
    AT_ONCE,
    REVIEWER,
    STEPS,
    USE,
    a_reviewed_project,
    record_measurements,
    review_streams,
    stream_inputs_of,
)
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_secondary, a_wanted_stream
from tests.fakes.projects import SimulatedProjects, simulated_projects
from tests.waiting import cpu_seconds_at_most

AR, AS, PSH, PSC, DEP, PR = Tier


def decided(project: Project) -> Decision:
    [(candidates, choice)] = review_streams(project)
    return Decision.of(candidates, choice, 0)


def test_a_stream_of_which_nothing_is_known_gets_the_fastest_tier(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as project:
        made = decided(project)
        assert (made.chosen, made.why) == (Tier.ACTIVE_REPLICATION, Why.TOO_LITTLE_DATA)
        assert made.acts
        assert "never measured" in made.reason or "enough data" in made.reason


def test_once_it_was_measured_the_cheapest_tier_that_holds_is_enough(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as project:
        record_measurements(project)
        made = decided(project)
        assert (made.current, made.chosen) == (Tier.PASSIVE_REPLICATION,) * 2
        assert not made.acts
        cheap = {tier.tier: tier.money_per_hour for tier in made.tiers}
        assert cheap[Tier.PASSIVE_REPLICATION] == min(cheap.values())


def test_a_choice_says_what_its_record_says(tmp_path: Path) -> None:
    bounds = {"snapshot_every": {"min": "2s", "max": "2m"}}
    controller = {**AT_ONCE, **bounds}
    with a_reviewed_project(tmp_path, objective="5m", controller=controller) as project:
        for has_samples in (False, True):
            if has_samples:
                record_measurements(project)
            [(candidates, choice)] = review_streams(project)
            made = Decision.of(candidates, choice, 0)
            assert (TIERS[choice.tier[0]], Why(choice.why[0])) == (made.chosen, made.why)
            assert choice.changes(candidates)[0] == made.acts
            chosen = 0, choice.interval[0]
            assert candidates.snapshot_every[chosen] == made.snapshot_every
            assert candidates.sync_every[chosen] == made.sync_every


def test_after_a_change_it_cools_down(tmp_path: Path) -> None:
    with a_reviewed_project(
        tmp_path, objective="5m", controller={"mode": "auto", "cool_down": "1h"}
    ) as project:
        made = decided(project)
        assert (made.chosen, made.why) == (Tier.PASSIVE_REPLICATION, Why.COOLING_DOWN)


@pytest.mark.parametrize(
    ("checkpoint", "seconds"),
    [
        ({"every": "10s"}, 10.0),
        ({"epochs": 4}, 4.0),
        ({"every": "10s", "epochs": 4}, 4.0),
        ({"every": "3s", "epochs": 4}, 3.0),
        ({"bytes": "1MB"}, 60.0),
    ],
)
def test_snapshots_come_as_soon_as_any_rule_says(
    tmp_path: Path, checkpoint: dict[str, object], seconds: float
) -> None:
    with a_reviewed_project(
        tmp_path, objective="5m", checkpoint=checkpoint, epoch={"seconds": "1s"}
    ) as project:
        assert decided(project).snapshot_every == seconds


def test_a_larger_objective_never_costs_more(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="10s") as project:
        record_measurements(project)
        points = REVIEWER.what_if(project, CLICKS, [0.0, 1.5, 5.0, 20.0, 60.0, 600.0])
        costs = [point.money_per_hour for point in points]
        assert costs == sorted(costs, reverse=True)
        assert points[0].tier is Tier.ACTIVE_REPLICATION
        assert points[-1].tier is Tier.PASSIVE_REPLICATION
        assert not points[0].holds  # the next commit takes an epoch
        assert all(point.holds and point.seconds <= point.objective_seconds for point in points[1:])


def test_what_if_keeps_the_margin_that_a_stream_would_keep(tmp_path: Path) -> None:
    with a_reviewed_project(
        tmp_path, objective="10s", controller={**AT_ONCE, "margin": 0.2}
    ) as project:
        record_measurements(project)
        needs = REVIEWER.what_if(project, CLICKS, [3600.0])[0].seconds
        close, far = REVIEWER.what_if(project, CLICKS, [needs / 0.81, needs / 0.79])
        assert close.tier is not Tier.PASSIVE_REPLICATION
        assert far.tier is Tier.PASSIVE_REPLICATION


def test_before_anything_is_known_active_replication_takes_an_epoch(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="10s") as project:
        for point in REVIEWER.what_if(project, CLICKS, [0.0, 60.0]):
            assert (point.tier, point.seconds) == (Tier.ACTIVE_REPLICATION, 1.2), "with a margin"
            assert point.holds is (point.objective_seconds >= 1.2)


def test_with_the_thesis_estimator_the_longest_of_each_step_counts(tmp_path: Path) -> None:
    controller = {**AT_ONCE, "estimator": "thesis", "weigh_by": "ec2"}
    with a_reviewed_project(tmp_path, objective="5m", controller=controller) as project:
        record_measurements(project)
        made = REVIEWER.decide_now(project, CLICKS)
        detect = (
            60.0 + 1.0 + 15.0
        )  # lease, heartbeat and orchestration: no failure was measured yet
        seconds = {tier.tier: tier.seconds for tier in made.tiers[:4]}
        assert seconds == pytest.approx(
            {AR: 0.0, AS: detect + 0.1, PSH: detect + 0.1, PSC: detect + 3.0}
        )
        assert made.tiers[3].steps == pytest.approx(
            {RecoveryStep.DETECT: detect, RecoveryStep.WIRE_RECEIVE: 3.0}
        )
        for tier in made.tiers:
            assert tier.seconds == tier.seconds_ahead == pytest.approx(sum(tier.steps.values()))
        assert made.chosen is AR, "a tie in instances goes to the faster one"


def test_what_the_thesis_estimator_lacks_is_named(tmp_path: Path) -> None:
    with a_reviewed_project(
        tmp_path, objective="5m", controller={**AT_ONCE, "estimator": "thesis"}
    ) as project:
        made = REVIEWER.decide_now(project, CLICKS)
        assert made.why is Why.TOO_LITTLE_DATA
        assert made.reason.endswith(
            "(never measured: deploy, read_snapshot, wire_receive, wire_send)"
        )
        with pytest.raises(PermanentError, match="no stream"):
            REVIEWER.decide_now(project, "unknown")


def test_a_secondary_that_is_paid_for_is_used_first(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m", prices="started_hours") as project:
        record_measurements(project)
        a_secondary(project, "s")
        project.store.tiers.desire(CLICKS, Tier.ACTIVE_STANDBY, why="test", run="r")
        made = decided(project)
        assert (made.chosen, made.why, made.acts) == (Tier.ACTIVE_REPLICATION, Why.PAID_FOR, True)
        assert made.reason == (
            "the secondary is paid for another 60 min, so active_replication costs nothing extra;"
            " after that passive_replication is the cheapest"
        )
        refused = {tier.tier: tier.rejected for tier in made.tiers}
        assert refused[Tier.ACTIVE_REPLICATION] is None
        assert refused[Tier.PASSIVE_REPLICATION] == "the secondary is still paid for"
        project.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="r")
        assert not decided(project).acts
        project.store.tiers.desire(CLICKS, Tier.PASSIVE_REPLICATION, why="test", run="r")
        assert decided(project).why is Why.CHEAPEST, "it is leaving"


def test_what_is_only_advised_waits_for_no_hour_to_end(tmp_path: Path) -> None:
    advised = {**AT_ONCE, "mode": "advise"}
    with a_reviewed_project(
        tmp_path, objective="5m", prices="started_hours", controller=advised
    ) as project:
        record_measurements(project)
        a_secondary(project, "s")
        project.store.tiers.desire(CLICKS, Tier.ACTIVE_STANDBY, why="test", run="r")
        assert decided(project).chosen is Tier.PASSIVE_REPLICATION


@pytest.mark.parametrize(("count_detection", "misses"), [(True, 1), (False, 0)])
def test_a_recovery_is_late_if_what_counts_of_it_is(
    tmp_path: Path,
    count_detection: bool,  # noqa: FBT001 (pytest fills it)
    misses: int,
) -> None:
    controller = {**AT_ONCE, "count_detection": count_detection}
    with a_reviewed_project(tmp_path, objective="5s", controller=controller) as project:
        record_outage(project, 7.0, detect_seconds=3.0)
        assert stream_inputs_of(project).recent_misses == misses


def test_a_lease_that_is_declared_again_is_noticed(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as project:
        before = decided(project)
        declared = project.config.root / "configs" / "streams" / f"{CLICKS}.yaml"
        declared.write_text(declared.read_text().replace(PATIENT["lease"], "6s"))
    with SimulatedProjects(tmp_path).open() as project:
        after = decided(project)
    assert before.tiers[1].steps[RecoveryStep.DETECT] > 60.0
    assert after.tiers[1].steps[RecoveryStep.DETECT] < 60.0


def test_a_snapshot_that_is_written_is_noticed_until_one_was_read(tmp_path: Path) -> None:
    samples = {name: value for name, value in {**STEPS, **USE}.items() if "read" not in name}
    with a_reviewed_project(tmp_path, objective="5m") as project:
        record_measurements(project, samples=samples)
        assert decided(project).tiers[-1].seconds == inf
        project.store.snapshots.record(a_snapshot("s1", 1, stream=CLICKS, created_at=1.0))
        assert decided(project).tiers[-1].seconds < inf


def test_what_was_fitted_is_kept_until_something_new_is_measured(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m") as project:
        record_measurements(project)
        first, again = stream_inputs_of(project).fit, stream_inputs_of(project).fit
        assert again.bounds is first.bounds
        record_measurements(project)
        assert stream_inputs_of(project).fit.bounds is not first.bounds


def test_only_new_recoveries_are_predicted_until_the_lease_is_declared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicted: list[object] = []

    def add_promises(detected: Sequence[Observation], timings: Timings) -> list[Observation]:
        predicted.append(timings)
        return list(recovery_history.add_promises(detected, timings))

    def predictions(project: Project) -> int:
        """How many the review makes now."""
        predicted.clear()
        stream_inputs_of(project)
        return len(predicted)

    monkeypatch.setattr(recoveries, "add_promises", add_promises)
    with a_reviewed_project(tmp_path, objective="5m") as project:
        record_measurements(project)
        a_secondary(project, "s")
        project.store.tiers.desire(CLICKS, Tier.ACTIVE_STANDBY, why="test", run="r")
        project.store.tiers.record_reached(CLICKS, tier=Tier.ACTIVE_STANDBY)
        began = project.store.now() + 100.0
        for number in range(5):
            record_takeover(project, 4.0, by=f"r{number}", rows=10.0, at=began + 100.0 * number)
        assert predictions(project) == 5
        record_measurements(project)
        assert predictions(project) == 0
        record_takeover(project, 4.0, by="r5", rows=10.0, at=began + 500.0)
        assert predictions(project) == 1
        assert stream_inputs_of(project).fit.calibration.own.sum() == 6
        declared = project.config.root / "configs" / "streams" / f"{CLICKS}.yaml"
        declared.write_text(declared.read_text().replace(PATIENT["lease"], "6s"))
    with SimulatedProjects(tmp_path).open() as project:
        assert predictions(project) == 6


def test_many_streams_are_reviewed_at_once(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(60)]
    projects = simulated_projects(
        tmp_path, *names, objective={"recovery_time": "5m"}, controller=AT_ONCE
    )
    with projects.open() as project:
        for name in names:
            a_wanted_stream(project, name)
            a_primary(project, f"{name}-p", name)
            record_measurements(project, name, by=f"{name}-p")
        reviewer = Reviewer()
        reviewer.review(project, {})  # fits what was measured, once
        with cpu_seconds_at_most(1.0):
            [(candidates, _)] = reviewer.review(project, {})
        assert sorted(inputs.stream for inputs in candidates.streams) == sorted(names)


def test_ten_thousand_streams_take_less_than_a_second_of_policy(tmp_path: Path) -> None:
    with a_reviewed_project(tmp_path, objective="5m", prices="started_hours") as project:
        record_measurements(project)
        declared = project.config.stream(CLICKS)
        section, prices = declared.controller, project.prices(declared)
        inputs = stream_inputs_of(project)
        last = record_decision(project.store, Decision.of(*choose([inputs], section, prices), 0))
    with cpu_seconds_at_most(1.0):
        made = choose([inputs] * 10_000, section, prices)
        changed = [index for index in range(10_000) if is_new_decision(*made, index, section, last)]
    assert (len(made[1].tier), changed) == (10_000, [])
