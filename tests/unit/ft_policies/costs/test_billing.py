"""Hours that are paid for once they start, and what to do with the rest of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.costs.billing import Span, count_instance_hours, keep_paid, paid_until
from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiering.candidates import Candidates
from holdfast.ft_policies.tiering.controller import ControllerPolicy, Why, keep_paid_secondaries
from holdfast.ft_policies.tiers import Tier

HOUR = 3600.0
NEVER = float("nan")
FIRST, LAST = 0, len(TIERS) - 1
ALL = np.ones(len(TIERS), dtype=bool)
NOW = 1_800_000_000.123

moments = st.floats(0.0, 1e6)
spans = st.builds(lambda at, seconds: Span(at, at + seconds), moments, st.floats(0.0, 1e5))


def chosen(
    wanted: Tier, *, ago: float, allowed: np.ndarray = ALL, release_seconds: float = 60.0
) -> Tier:
    [tier] = keep_paid(
        np.array([TIERS.index(wanted)]),
        started_at=np.array([NOW - ago]),
        now=NOW,
        allowed=allowed[np.newaxis],
        release_seconds=release_seconds,
    )
    return TIERS[tier]


@pytest.mark.parametrize(
    ("ran", "paid"), [(0.0, 1), (1.0, 1), (3599.0, 1), (3600.0, 2), (3601.0, 2), (9000.0, 3)]
)
def test_an_hour_is_paid_when_it_starts(ran: float, paid: int) -> None:
    assert paid_until(NOW, NOW + ran) == pytest.approx(NOW + paid * HOUR)


@given(moments, st.floats(0.0, 1e6))
def test_what_is_paid_reaches_at_most_an_hour_ahead(started_at: float, ran: float) -> None:
    left = paid_until(started_at, started_at + ran) - (started_at + ran)
    assert -0.01 < left <= HOUR + 0.01


def test_a_paid_instance_is_used_at_the_fastest_tier_until_its_hour_ends() -> None:
    assert chosen(Tier.PASSIVE_REPLICATION, ago=600.0) is Tier.ACTIVE_REPLICATION
    assert chosen(Tier.PASSIVE_REPLICATION, ago=3500.0) is Tier.ACTIVE_REPLICATION
    assert chosen(Tier.PASSIVE_REPLICATION, ago=3550.0) is Tier.PASSIVE_REPLICATION
    assert chosen(Tier.PASSIVE_REPLICATION, ago=3600.0 + 600.0) is Tier.ACTIVE_REPLICATION


def test_a_release_begins_early_enough_to_end_within_the_hour() -> None:
    slow = {"ago": 3000.0, "release_seconds": 900.0}
    assert chosen(Tier.PASSIVE_REPLICATION, **slow) is Tier.PASSIVE_REPLICATION


def test_a_tier_that_the_stream_cannot_be_in_is_not_used() -> None:
    allowed = np.array([tier is not Tier.ACTIVE_REPLICATION for tier in TIERS])
    assert chosen(Tier.PASSIVE_REPLICATION, ago=60.0, allowed=allowed) is Tier.ACTIVE_STANDBY
    alone = np.array([tier is Tier.PASSIVE_REPLICATION for tier in TIERS])
    assert chosen(Tier.PASSIVE_REPLICATION, ago=60.0, allowed=alone) is Tier.PASSIVE_REPLICATION


@pytest.mark.parametrize("wanted", [tier for tier in Tier if tier is not Tier.PASSIVE_REPLICATION])
def test_a_tier_with_a_secondary_is_taken_as_wanted(wanted: Tier) -> None:
    assert chosen(wanted, ago=60.0) is wanted


def test_many_streams_are_asked_at_once_and_nothing_is_kept_where_nothing_is() -> None:
    tiers = keep_paid(
        np.array([LAST, LAST, 3]),
        started_at=np.array([NEVER, NOW - 5.0, NEVER]),
        now=NOW,
        allowed=np.ones((3, len(TIERS)), dtype=bool),
    )
    assert tiers.tolist() == [LAST, FIRST, 3]


def used(current: Tier, *, ago: float, policy: ControllerPolicy) -> tuple[Tier, Why]:
    """What a stream should have whose cheapest tier has no secondary, if its own is that old."""
    candidates = Candidates(
        predicted=np.zeros((1, 1, 6)),
        predicted_ahead=np.zeros((1, 1, 6)),
        cost=np.array([[[1.0] * 5 + [0.1]]]),
        objective=np.array([10.0]),
        allowed=ALL[np.newaxis],
        enough=np.array([True]),
        current=np.array([TIERS.index(current)]),
        current_interval=np.array([0]),
        since_change=np.array([1000.0]),
        recent_misses=np.array([0]),
    )
    started_at = np.array([NOW - ago])
    choice = policy.choose(candidates)
    kept = keep_paid_secondaries(choice, candidates, started_at=started_at, now=NOW)
    return TIERS[kept.tier[0]], Why(kept.why[0])


def test_a_choice_to_release_a_paid_secondary_is_put_off_while_it_can_be_left_in_time() -> None:
    policy = ControllerPolicy(cool_down_seconds=60.0, dwell_seconds=300.0)
    for current in (Tier.ACTIVE_REPLICATION, Tier.PASSIVE_STANDBY_HOT):
        assert used(current, ago=600.0, policy=policy) == (Tier.ACTIVE_REPLICATION, Why.PAID_FOR)
        late = used(current, ago=3600.0 - 350.0, policy=policy)
        assert late == (Tier.PASSIVE_REPLICATION, Why.SAVES)


def test_a_secondary_that_is_leaving_is_not_called_back() -> None:
    leaving = used(Tier.PASSIVE_REPLICATION, ago=600.0, policy=ControllerPolicy())
    assert leaving == (Tier.PASSIVE_REPLICATION, Why.CHEAPEST)


def test_a_stream_that_stays_for_now_stays() -> None:
    dwells = ControllerPolicy(dwell_seconds=2000.0)
    stays = used(Tier.PASSIVE_STANDBY_HOT, ago=600.0, policy=dwells)
    assert stays == (Tier.PASSIVE_STANDBY_HOT, Why.DWELLING)


@pytest.mark.parametrize(
    ("seconds", "hours"), [(0.0, 1), (1.0, 1), (3600.0, 1), (3601.0, 2), (7200.0, 2)]
)
def test_started_hours_are_billed_whole(seconds: float, hours: int) -> None:
    span = [Span(NOW, NOW + seconds)]
    assert count_instance_hours(span, started_hours=True) == hours
    assert count_instance_hours(span, started_hours=False) == pytest.approx(seconds / HOUR)


def test_no_instance_costs_nothing() -> None:
    assert count_instance_hours([], started_hours=True) == 0.0
    assert count_instance_hours([], started_hours=False) == 0.0


@pytest.mark.parametrize("started_hours", [True, False])
@given(ran=st.lists(spans, max_size=8), borders=st.lists(moments, max_size=3))
def test_the_days_add_up(ran: list[Span], borders: list[float], *, started_hours: bool) -> None:
    cuts = [-np.inf, *sorted(borders), np.inf]
    parts = [
        count_instance_hours(ran, started_hours=started_hours, since=since, until=until)
        for since, until in pairwise(cuts)
    ]
    whole = count_instance_hours(ran, started_hours=started_hours)
    assert sum(parts) == pytest.approx(whole)
    assert min(parts) >= 0.0
