"""How a stream is, from what several observers say."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.health import (
    LAG_MEMORY_SECONDS,
    Health,
    HealthPolicy,
    LagReading,
    PrimaryFacts,
    Process,
    SecondaryFacts,
    is_lagging,
)
from holdfast.ft_policies.timings import Timings

POLICY = HealthPolicy(
    Timings.derive(heartbeat=0.5, lease=3.0, stuck_after=60.0, start_within=120.0)
)
WELL = PrimaryFacts(
    id="words-1",
    process=Process.RUNNING,
    registered_age_seconds=500.0,
    heartbeat_age_seconds=0.4,
    progress_age_seconds=1.0,
    processing=True,
    caught_up=True,
)
STARTING = replace(
    WELL, registered_age_seconds=5.0, progress_age_seconds=None, processing=False, caught_up=False
)


@pytest.mark.parametrize(
    ("facts", "health"),
    [
        (WELL, Health.HEALTHY),
        (replace(WELL, caught_up=False), Health.REPLAYING),
        (replace(WELL, process=Process.UNKNOWN), Health.HEALTHY),
        (replace(WELL, process=Process.GONE), Health.DEAD),
        (replace(WELL, heartbeat_age_seconds=3.1), Health.DISPUTED),
        (replace(WELL, heartbeat_age_seconds=3.1, process=Process.UNKNOWN), Health.SILENT),
        (replace(WELL, heartbeat_age_seconds=-0.5, progress_age_seconds=-0.5), Health.HEALTHY),
        (replace(WELL, heartbeat_age_seconds=-3599.0), Health.DISPUTED),
        (replace(WELL, heartbeat_age_seconds=-3599.0, process=Process.UNKNOWN), Health.SILENT),
        (replace(WELL, progress_age_seconds=-3599.0), Health.WAITING),
        (replace(WELL, progress_age_seconds=61.0), Health.STUCK),
        (replace(WELL, progress_age_seconds=61.0, given_up_before=1), Health.HEALTHY),
        (replace(WELL, progress_age_seconds=121.0, given_up_before=1), Health.STUCK),
        (replace(WELL, processing=False), Health.WAITING),
        (replace(WELL, input_away=True, progress_age_seconds=9000.0), Health.WAITING),
        (replace(STARTING, input_away=True, registered_age_seconds=9000.0), Health.WAITING),
        (replace(WELL, input_away=True, heartbeat_age_seconds=3.1), Health.DISPUTED),
        (replace(WELL, input_away=True, process=Process.GONE), Health.DEAD),
        (replace(WELL, processing=False, progress_age_seconds=61.0), Health.STUCK),
        (STARTING, Health.STARTING),
        (replace(STARTING, registered_age_seconds=121.0), Health.STUCK),
        (replace(STARTING, heartbeat_age_seconds=None), Health.STARTING),
        (
            replace(STARTING, heartbeat_age_seconds=None, registered_age_seconds=16.0),
            Health.STARTING,
        ),
        (replace(STARTING, heartbeat_age_seconds=None, registered_age_seconds=121.0), Health.STUCK),
        (
            replace(
                STARTING,
                heartbeat_age_seconds=None,
                registered_age_seconds=16.0,
                process=Process.UNKNOWN,
            ),
            Health.SILENT,
        ),
        (None, Health.MISSING),
    ],
)
def test_a_stream_that_should_run_is_judged(facts: PrimaryFacts | None, health: Health) -> None:
    assert POLICY.judge(wanted=True, primary=facts).health is health


def test_a_stream_that_is_not_wanted_is_stopped_or_stopping() -> None:
    assert POLICY.judge(wanted=False, primary=None).health is Health.STOPPED
    assert POLICY.judge(wanted=False, primary=WELL).health is Health.STOPPING


def test_observers_that_disagree_are_named() -> None:
    verdict = POLICY.judge(wanted=True, primary=replace(WELL, heartbeat_age_seconds=9.0))
    assert verdict.health is Health.DISPUTED
    assert verdict.reason == "words-1 has sent no heartbeat for 9 s, but its process is running"


def test_a_clock_that_was_set_back_is_named() -> None:
    verdict = POLICY.judge(wanted=True, primary=replace(WELL, progress_age_seconds=-3599.0))
    assert "clock was set back by 3,599 s" in verdict.reason


AGES = st.none() | st.floats(0, 1000)


@given(
    st.builds(
        PrimaryFacts,
        id=st.just("words-1"),
        process=st.sampled_from(Process),
        registered_age_seconds=st.floats(0, 1000),
        heartbeat_age_seconds=AGES,
        progress_age_seconds=AGES,
        processing=st.booleans(),
        caught_up=st.booleans(),
    )
)
def test_a_primary_that_is_silent_for_longer_than_its_lease_never_passes_for_well(
    facts: PrimaryFacts,
) -> None:
    verdict = POLICY.judge(wanted=True, primary=facts)
    silent = (
        facts.heartbeat_age_seconds is not None
        and facts.heartbeat_age_seconds > POLICY.timings.lease_seconds
    )
    assert verdict.reason
    if silent or facts.process is Process.GONE:
        assert verdict.health.failed


STANDS_BY = SecondaryFacts(
    id="words-2",
    process=Process.RUNNING,
    registered_age_seconds=500.0,
    heartbeat_age_seconds=0.4,
    quiet_seconds=1.0,
    leaving=False,
    deployed=True,
    processing=False,
    paused=False,
)
COMING_UP = replace(STANDS_BY, registered_age_seconds=5.0, deployed=False)
PROCESSES = replace(STANDS_BY, processing=True)


@pytest.mark.parametrize(
    ("facts", "health"),
    [
        (STANDS_BY, Health.HEALTHY),
        (PROCESSES, Health.HEALTHY),
        (replace(STANDS_BY, process=Process.GONE), Health.DEAD),
        (replace(STANDS_BY, process=Process.GONE, leaving=True), Health.DEAD),
        (replace(STANDS_BY, heartbeat_age_seconds=8.9), Health.HEALTHY),
        (replace(STANDS_BY, heartbeat_age_seconds=9.1), Health.DISPUTED),
        (replace(STANDS_BY, heartbeat_age_seconds=9.1, process=Process.UNKNOWN), Health.SILENT),
        (replace(STANDS_BY, leaving=True), Health.STOPPING),
        (COMING_UP, Health.STARTING),
        (replace(COMING_UP, heartbeat_age_seconds=None), Health.STARTING),
        (
            replace(COMING_UP, heartbeat_age_seconds=None, registered_age_seconds=16.0),
            Health.STARTING,
        ),
        (
            replace(COMING_UP, heartbeat_age_seconds=None, registered_age_seconds=121.0),
            Health.STUCK,
        ),
        (
            replace(
                COMING_UP,
                heartbeat_age_seconds=None,
                registered_age_seconds=16.0,
                process=Process.UNKNOWN,
            ),
            Health.SILENT,
        ),
        (replace(COMING_UP, registered_age_seconds=121.0), Health.STUCK),
        (replace(PROCESSES, quiet_seconds=179.0), Health.HEALTHY),
        (replace(PROCESSES, quiet_seconds=181.0), Health.STUCK),
        (replace(PROCESSES, quiet_seconds=181.0, paused=True), Health.HEALTHY),
        (replace(STANDS_BY, quiet_seconds=9000.0), Health.HEALTHY),
    ],
)
def test_a_secondary_is_judged(facts: SecondaryFacts, health: Health) -> None:
    assert POLICY.judge_secondary(facts).health is health


TOLERATED = 20.0


def lags(
    *seconds: float, every: float = 5.0, rows: Sequence[float] | None = None
) -> list[LagReading]:
    rows_behind = [None] * len(seconds) if rows is None else rows
    return [
        LagReading(at=number * every, seconds=lag, rows=waiting)
        for number, (lag, waiting) in enumerate(zip(seconds, rows_behind, strict=True))
    ]


GROWING = [30.0 + number for number in range(24)]
STEADY = [40.0, 43.0] * 12
FALLING = [90.0 - number for number in range(24)]
SAWTOOTH = [2.0, 12.0, 25.0] * 8
SLOW_EPOCH = [3.0] * 12 + [30.0, 35.0, 40.0, 45.0] + [4.0] * 8


@pytest.mark.parametrize(
    ("readings", "lagging"),
    [
        (lags(*GROWING), True),
        (lags(*STEADY), True),
        (lags(*FALLING), False),
        (lags(*SAWTOOTH), False),
        (lags(*SLOW_EPOCH), False),
        (lags(*GROWING[:10]), False),  # seen for 45 s only
        (lags(30.0, 60.0, 90.0, 120.0, every=60.0), True),  # epochs of a minute
        (lags(30.0, 60.0, 90.0, every=60.0), False),
        # Old files that are worked off get older all the time, and fewer.
        (lags(*GROWING, rows=[2400.0 - 100.0 * number for number in range(24)]), False),
        (lags(*GROWING, rows=[100.0 * number for number in range(24)]), True),
        ([], False),
    ],
)
def test_a_stream_that_is_behind_and_comes_no_nearer_lags(
    readings: list[LagReading], *, lagging: bool
) -> None:
    assert is_lagging(readings, TOLERATED) is lagging
    facts = replace(WELL, lag=readings, tolerated_lag_seconds=TOLERATED)
    health = POLICY.judge(wanted=True, primary=facts).health
    assert health is (Health.LAGGING if lagging else Health.HEALTHY)


DAY = 86_400


@pytest.mark.parametrize("noise", [2.0, 3.5, 5.0])
@pytest.mark.parametrize("with_rows", [False, True])
def test_a_constant_lag_with_noise_does_not_flip(noise: float, *, with_rows: bool) -> None:
    random = Random(7)  # noqa: S311
    seconds = [300.0 + random.uniform(-noise, noise) for _ in range(0, DAY, 5)]
    readings = lags(*seconds, rows=[100.0 * lag for lag in seconds] if with_rows else None)
    memory = int(LAG_MEMORY_SECONDS / 5.0)
    judged = [
        is_lagging(readings[end - memory : end], TOLERATED)
        for end in range(memory, len(readings), 12)
    ]
    assert all(judged)


def test_a_stream_that_lags_does_so_until_it_has_clearly_come_nearer() -> None:
    steady, slowly, clearly = [300.0] * 24, [], []
    for number in range(96):
        slowly.append(300.0 - 0.5 * number)  # 6 s in half a window, 2 % of the lag
        clearly.append(300.0 - 2.0 * number)
    assert is_lagging(lags(*steady, *slowly), TOLERATED)
    assert not is_lagging(lags(*slowly), TOLERATED), "all that is known of it has come nearer"
    assert not is_lagging(lags(*steady, *clearly), TOLERATED)
    assert not is_lagging(lags(*steady, 5.0), TOLERATED), "it has caught up"
    assert is_lagging(lags(*steady, *clearly, *[110.0] * 24), TOLERATED)


def test_a_stream_that_lags_runs_needs_no_recovery_and_is_not_healthy() -> None:
    assert Health.LAGGING.is_running
    assert not Health.LAGGING.failed
    assert Health.LAGGING.is_alarming


def test_an_epoch_that_is_late_or_a_lost_primary_is_more_than_a_lag() -> None:
    behind = replace(WELL, lag=lags(*GROWING), tolerated_lag_seconds=TOLERATED)
    for facts, health in (
        (replace(behind, progress_age_seconds=61.0), Health.STUCK),
        (replace(behind, caught_up=False), Health.REPLAYING),
        (replace(behind, process=Process.GONE), Health.DEAD),
    ):
        assert POLICY.judge(wanted=True, primary=facts).health is health
