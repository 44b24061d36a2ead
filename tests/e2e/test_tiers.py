"""Each tier with a secondary: the primary is killed, and only the secondary brings the stream back.

What was measured by then is enough for the review to know what every tier takes and costs.
"""

from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.review import Reviewer
from holdfast.orchestration.incidents import due_recoveries
from holdfast.orchestration.sensors.tier_review import due_switches
from holdfast.resources.control_store.sample_names import SampleName
from tests.chaos.faults import kill_during_change
from tests.live.faults import POINTS, arm
from tests.live.stream import NAME, TIERED, LiveStream, a_live_stream, require_exact_output

pytestmark = [pytest.mark.e2e, pytest.mark.crowded, pytest.mark.timeout(900)]

REVIEWED: dict[str, Any] = {
    "objective": {"recovery_time": "1s"},
    "checkpoint": {"every": "2s"},
    "controller": {
        "mode": "auto",
        "cool_down": "1s",
        "snapshot_every": {"min": "2s", "max": "20s"},
    },
}
WITH_A_SECONDARY = tuple(reversed([tier for tier in Tier if SECONDARY[tier].deploy]))


def fail_over(stream: LiveStream, point: str) -> None:
    """The primary dies at a point of an epoch; the next epoch comes without any orchestrator."""
    primary, secondary = stream.primary(), stream.secondary()
    journal = stream.project.store.journal.of(NAME)
    arm(stream.root, point, after_epoch=stream.epoch() + 1, replica=primary.id)
    stream.await_takeover(secondary)
    assert stream.project.store.journal.of(NAME) == journal
    fallen = stream.project.store.replicas.get(primary.id)
    assert fallen is not None
    assert fallen.state == "fenced"


def sample_names(stream: LiveStream) -> set[str]:
    """What the primary has measured of its takeover."""
    samples = stream.project.store.samples.latest(NAME)
    primary = stream.primary().id
    return {name for name, sample in samples.items() if sample.replica == primary}


def taken_over_by(stream: LiveStream) -> str | None:
    """What the open incident names; a moment before it is opened, the last one is closed."""
    [by] = [
        incident.detail["taken_over_by"] for incident in stream.project.store.incidents.of(NAME)
    ] or [None]
    return by


def steps_of(tier: Tier) -> set[str]:
    """The steps that a secondary of a tier still has to do, as samples."""
    on = SECONDARY[tier]
    left = {SampleName.WIRE_SEND_SECONDS: on.send, SampleName.WIRE_RECEIVE_SECONDS: on.receive}
    left[SampleName.READ_SNAPSHOT_SECONDS] = on.sync or on.process
    return {step for step, done in left.items() if not done}


def test_in_every_tier_the_secondary_of_a_killed_primary_goes_on_by_itself(tmp_path: Path) -> None:
    declared = {**TIERED, **REVIEWED, "tier": WITH_A_SECONDARY[0]}
    with a_live_stream(tmp_path, **declared) as stream:
        stream.start()
        _one_that_is_not_known_yet_should_be_active(stream)
        for tier, point in zip(WITH_A_SECONDARY, POINTS, strict=True):
            stream.switch(tier)  # also what restores the redundancy that the last kill cost
            assert stream.look().covered is tier
            fail_over(stream, point)
            stream.wait(
                lambda: SampleName.RECOVERY_SECONDS in sample_names(stream),
                "sample of the recovery",
            )
            assert {SampleName.DETECT_SECONDS, SampleName.REPLAY_SECONDS} <= sample_names(stream)
            assert steps_of(tier) <= sample_names(stream)
        stream.wait(
            lambda: taken_over_by(stream) == stream.primary().id, "incident of the failover"
        )
        names = {step.name for step in stream.recover()}
        assert "LaunchSecondary" in names
        assert "Launch" not in names
        stream.await_tier(WITH_A_SECONDARY[-1])
        _one_that_is_known_has_a_price_for_every_objective(stream)
        _a_change_never_weakens_what_there_is(stream)
        assert due_recoveries(stream.project) == [], (
            "the sensor closes an incident that needs no run"
        )
        _two_failures_at_once_in_a_change_of_tier_are_survived(stream)
        require_exact_output(stream, both_send=True)


def _one_that_is_not_known_yet_should_be_active(stream: LiveStream) -> None:
    [due] = due_switches(stream.project, Reviewer())
    assert due.decision.chosen is Tier.ACTIVE_REPLICATION


def _one_that_is_known_has_a_price_for_every_objective(stream: LiveStream) -> None:
    made = Reviewer().decide_now(stream.project, NAME)
    assert float(made.load.rows_per_second) > 1000
    assert all(isfinite(option.seconds) and option.money_per_hour > 0 for option in made.tiers)
    [easy] = Reviewer().what_if(stream.project, NAME, [3600.0])
    assert (easy.tier, easy.snapshot_every) == (Tier.PASSIVE_REPLICATION, 20.0)


def _a_change_never_weakens_what_there_is(stream: LiveStream) -> None:
    for tier in (Tier.PASSIVE_STANDBY_HOT, Tier.ACTIVE_STANDBY):
        before = stream.look().covered
        with stream.sampled(lambda: stream.look().covered) as samples:
            stream.switch(tier)
        least = min(before.strength, tier.strength)
        assert all(sample.strength >= least for sample in samples), (before, tier, samples)


def _two_failures_at_once_in_a_change_of_tier_are_survived(stream: LiveStream) -> None:
    """`make chaos` in small."""
    changes_before = len(stream.project.store.tiers.history(NAME))
    kill_during_change(
        stream, Tier.PASSIVE_REPLICATION, step="AwaitSecondaryExit", whom="both", delay=0.0
    )
    *_, change = changes = stream.project.store.tiers.history(NAME)
    assert len(changes) == changes_before + 1
    assert (change.tier_from, change.tier_to) == (Tier.ACTIVE_STANDBY, Tier.PASSIVE_REPLICATION)
    assert change.reached_at is not None
