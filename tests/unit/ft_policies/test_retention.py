import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.snapshots import RetentionPolicy, SnapshotFacts

HOUR = 3600.0
DAY = 24 * HOUR


def snapshots(*ages_seconds: float, now: float) -> list[SnapshotFacts]:
    count = len(ages_seconds)
    return [SnapshotFacts(f"s{n}", count - n, now - age) for n, age in enumerate(ages_seconds)]


def test_the_newest_are_kept_and_the_reasons_told() -> None:
    verdicts = RetentionPolicy(last=2).decide(snapshots(0, 10, 20, now=DAY), now=DAY)
    assert [(v.snapshot.id, v.keep) for v in verdicts] == [
        ("s0", True),
        ("s1", True),
        ("s2", False),
    ]
    assert verdicts[0].reasons == ("the newest snapshot",)
    assert verdicts[1].reasons == ("one of the newest 2",)
    assert verdicts[2].reasons == ("older than the newest 2",)


def test_one_an_hour_is_kept_for_as_many_hours_as_asked() -> None:
    now = 10 * HOUR + 1800
    ages = (0, 60, HOUR, HOUR + 60, 2 * HOUR, 3 * HOUR)
    verdicts = RetentionPolicy(last=1, hourly=3).decide(snapshots(*ages, now=now), now=now)
    assert [v.snapshot.id for v in verdicts if v.keep] == ["s0", "s2", "s4"]
    assert verdicts[0].reasons == ("the newest snapshot", "the newest of its hour")


def test_one_a_day_is_kept_beside_the_hours() -> None:
    now = 10 * DAY + 12 * HOUR
    ages = (0, HOUR, DAY, DAY + HOUR, 2 * DAY)
    policy = RetentionPolicy(last=1, hourly=2, daily=2)
    verdicts = policy.decide(snapshots(*ages, now=now), now=now)
    assert [v.snapshot.id for v in verdicts if v.keep] == ["s0", "s1", "s2"]
    assert len(verdicts[-1].reasons) == 3


def test_an_old_stream_keeps_its_newest_snapshot() -> None:
    verdicts = RetentionPolicy(last=1, hourly=1).decide(
        snapshots(100 * DAY, now=200 * DAY), now=200 * DAY
    )
    assert verdicts[0].keep


def test_keeping_nothing_is_refused() -> None:
    with pytest.raises(PermanentError, match="newest"):
        RetentionPolicy(last=0)


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_the_newest_is_always_kept_and_everything_has_a_reason(
    ages: list[float], last: int, hourly: int, daily: int
) -> None:
    policy = RetentionPolicy(last=last, hourly=hourly, daily=daily)
    verdicts = policy.decide(snapshots(*ages, now=2e6), now=2e6)
    assert len(verdicts) == len(ages)
    assert verdicts[0].keep
    assert all(v.reasons for v in verdicts)
    assert sum(v.keep for v in verdicts) <= last + hourly + daily
