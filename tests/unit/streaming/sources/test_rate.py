"""A synthetic input that can be read again for ever."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from holdfast.configs.declarations.sources import (
    ConstantProfile,
    DiurnalProfile,
    Profile,
    RateSource as RateDeclaration,
    SpikesProfile,
    StepProfile,
)
from holdfast.streaming.sources.base import Backlog
from holdfast.streaming.sources.rate import RateSource, curve

CONSTANT = ConstantProfile(rows_per_second=100)
PROFILES = [
    CONSTANT,
    StepProfile(rows_per_second=100, then_rows_per_second=500, at=10),
    SpikesProfile(rows_per_second=50, spike_rows_per_second=900, length=2, period=20),
    DiurnalProfile(low_rows_per_second=10, high_rows_per_second=400, period=60),
]


def a_source(
    profile: Profile = CONSTANT, *, partitions: int = 1, limit_rows: int | None = None
) -> RateSource:
    return RateSource(
        RateDeclaration(
            seed=7,
            keys=50,
            partitions=partitions,
            profile=profile,
            start=datetime(2026, 1, 1, tzinfo=UTC),
            limit_rows=limit_rows,
        )
    )


def rows_of(source: RateSource, taken: dict[str, object]) -> pa.Table:
    return pa.Table.from_batches(
        [batch for split in source.splits(taken) for batch in source.read(split)]
    )


@pytest.mark.parametrize(
    ("profile", "after_seconds", "rows"),
    [
        (PROFILES[0], 12.0, 1200),
        (PROFILES[1], 10.0, 1000),
        (PROFILES[1], 12.0, 2000),
        (PROFILES[2], 2.0, 1800),
        (PROFILES[2], 20.0, 2700),
        (PROFILES[2], 41.0, 6300),
        (PROFILES[3], 60.0, 12300),
        (PROFILES[3], 120.0, 24600),
    ],
)
def test_a_profile_counts_its_rows(profile: Profile, after_seconds: float, rows: int) -> None:
    assert abs(curve(profile).rows_by(after_seconds) - rows) <= 1


@pytest.mark.parametrize("profile", PROFILES)
@given(offset=st.integers(0, 100_000))
def test_a_row_is_dated_when_the_profile_produced_it(profile: Profile, offset: int) -> None:
    shape = curve(profile)
    at = float(shape.seconds_of(np.array([offset]))[0])
    assert abs(shape.rows_by(at) - offset) <= 1


@given(cuts=st.lists(st.integers(0, 400), max_size=8), partitions=st.integers(1, 5))
def test_however_the_input_is_cut_the_rows_are_the_same(cuts: list[int], partitions: int) -> None:
    source, whole = a_source(partitions=partitions), a_source()
    position, parts = None, []
    for rows in [*cuts, 1]:
        taken = source.take(position, rows, now=1000.0)
        position = taken.end
        if rows:
            parts.append(rows_of(source, dict(taken.input)))
    total = sum(cuts) + 1
    expected = rows_of(whole, dict(whole.take(None, total, now=1000.0).input))
    assert pa.concat_tables(parts).combine_chunks().equals(expected.combine_chunks())


def test_what_waits_is_what_the_profile_made_less_what_was_taken() -> None:
    source = a_source(limit_rows=150)
    first = source.take(None, 0, now=1000.0)
    assert source.waiting_rows(None, now=1000.0) == 0
    assert source.waiting_rows(first.end, now=1001.0) == 100
    second = source.take(first.end, 100, now=1001.0)
    assert source.waiting_rows(second.end, now=1001.0) == 0
    assert source.waiting_rows(second.end, now=2000.0) == 50


def test_another_seed_makes_other_rows() -> None:
    source = a_source()
    other = RateSource(source.declared.model_copy(update={"seed": 8}))
    taken = dict(source.take(None, 100, now=0.0).input)
    assert not rows_of(source, taken).equals(rows_of(other, taken))


def test_a_backlog_counts_and_dates_what_the_profile_has_produced() -> None:
    source, position = a_source(limit_rows=2_000), {"origin": 1_000.0, "rows": 500}
    assert source.backlog(position, [], now=1_012.0) == Backlog(rows=700, oldest_at=1_005.0)
    assert source.backlog(position, [], now=2_000.0) == Backlog(rows=1_500, oldest_at=1_005.0)
    assert source.backlog(position, [], now=1_005.0) == Backlog(rows=0, oldest_at=None)
    assert source.backlog(None, [], now=1_005.0) == Backlog(rows=0, oldest_at=None)
    taken = source.take(position, 100, now=1_012.0)
    assert source.arrived_at(taken.input, taken.end) == 1_005.0


def test_rows_from_before_a_time_are_skipped() -> None:
    source, position = a_source(), {"origin": 1_000.0, "rows": 500}
    skipped = source.skip(position, [], before=1_010.0, now=1_020.0)
    assert skipped is not None
    assert (skipped.rows, skipped.end) == (0, {"origin": 1_000.0, "rows": 1_000})
    assert skipped.input["skipped_rows"] == 500
    assert list(source.splits(skipped.input)) == []
    assert source.skip(skipped.end, [], before=1_010.0, now=1_020.0) is None
    assert source.skip(None, [], before=1_010.0, now=1_020.0) is None
