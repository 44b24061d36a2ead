"""When an epoch closes."""

from math import inf

import pytest

from holdfast.ft_policies.epochs import Close, Pace, Wait, since_last_epoch, skip_before

PACE = Pace(seconds=1.0, rows=100, silence_seconds=5.0)


@pytest.mark.parametrize(
    ("waiting", "since", "expected"),
    [
        (0, None, 0),  # the first epoch fixes where the input starts
        (250, None, 100),
        (100, 0.0, 100),
        (250, 0.0, 100),  # never more than fits, however much waits
        (7, 1.0, 7),
        (0, 5.0, 0),
    ],
)
def test_an_epoch_closes_when_it_is_full_old_or_the_input_silent(
    waiting: int, since: float | None, expected: int
) -> None:
    decision = PACE.decide(waiting_rows=waiting, since_last_seconds=since)
    assert isinstance(decision, Close)
    assert decision.rows == expected


@pytest.mark.parametrize(("waiting", "since"), [(99, 0.9), (0, 4.9), (1, 0.0)])
def test_an_epoch_that_is_neither_full_nor_old_waits(waiting: int, since: float) -> None:
    assert isinstance(PACE.decide(waiting_rows=waiting, since_last_seconds=since), Wait)


def test_rows_alone_do_not_keep_a_half_full_epoch_open_for_ever() -> None:
    pace = Pace(rows=100, silence_seconds=5.0)
    assert isinstance(pace.decide(waiting_rows=10, since_last_seconds=4.9), Wait)
    assert pace.decide(waiting_rows=10, since_last_seconds=5.0) == Close(10, "not full after 5 s")


def test_a_clock_that_is_set_back_makes_the_next_epoch_due() -> None:
    since = since_last_epoch(age_seconds=-3599.0, seen_seconds=0.2)
    assert isinstance(PACE.decide(waiting_rows=7, since_last_seconds=since), Close)


def test_a_clock_that_is_set_back_a_little_does_not_slow_the_pace_down() -> None:
    assert since_last_epoch(age_seconds=0.1, seen_seconds=1.1) == 1.1


def test_a_proposer_that_has_just_started_counts_the_age_of_the_last_epoch() -> None:
    assert since_last_epoch(age_seconds=4.0, seen_seconds=0.1) == 4.0


@pytest.mark.parametrize(
    ("since", "takes_over", "expected"),
    [
        (71.0, True, 940.0),
        (70.0, True, None),  # back in time: nothing is skipped
        (71.0, False, None),  # it was slow, and is the same replica
        (None, True, None),  # the first epoch
        (inf, True, None),  # the clock was set back
    ],
)
def test_a_replica_that_is_later_than_the_objective_skips_what_is_older(
    since: float | None, expected: float | None, *, takes_over: bool
) -> None:
    before = skip_before(
        now=1_000.0,
        since_last_seconds=since,
        takes_over=takes_over,
        recovery_seconds=60.0,
        epoch_seconds=10.0,
    )
    assert before == expected
