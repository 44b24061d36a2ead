"""Folds of high mobility and overlapping calls, by hand and against the oracle, without Spark."""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.apps.input_flaws import InputFlaws
from holdfast.apps.keyed_fold import _from_bytes, _to_bytes
from holdfast.apps.telecom import generator, high_mobility, oracle, overlapping_calls

EXPECTED = {
    high_mobility: oracle.high_mobility,
    overlapping_calls: oracle.overlapping_calls,
}
both_queries = pytest.mark.parametrize("query", list(EXPECTED))


def calls(*events: tuple[int, str, str, int, int, float]) -> pd.DataFrame:
    """Calls as (epoch, caller, callee, time, duration, x of the caller); callees do not move."""
    columns = ["epoch", "caller", "callee", "time", "duration", "caller_x"]
    frame = pd.DataFrame(events, columns=columns).astype({"caller_x": float})
    return frame.assign(price=1.0, caller_y=0.0, callee_x=0.0, callee_y=0.0)


def sides(rows: pd.DataFrame, query: ModuleType) -> pd.DataFrame:
    """What Spark hands to the fold, with the epoch."""
    times = rows.assign(start=rows["time"], end=rows["time"] + rows["duration"])
    caller = {"caller": "phone", "callee": "other", "caller_x": "x", "caller_y": "y"}
    callee = {"callee": "phone", "caller": "other", "callee_x": "x", "callee_y": "y"}
    each = [times.rename(columns=names)[["epoch", *query.ORDER]] for names in (caller, callee)]
    return pd.concat(each).sort_values(["epoch", *query.ORDER], ignore_index=True)


def folded(
    query: ModuleType, records: pd.DataFrame, params: Mapping[str, Any]
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """The output of each epoch, with the epoch, and what is kept after it."""
    fold, kept = query.build_fold(params), None
    for epoch, rows in records.groupby("epoch"):
        output, keep = fold(rows.drop(columns="epoch").reset_index(drop=True), kept)
        kept = _from_bytes(_to_bytes(keep))
        yield output.assign(epoch=epoch), kept


def found(
    query: ModuleType, rows: pd.DataFrame, params: Mapping[str, Any], *, buckets: int = 1
) -> dict[int, pd.DataFrame]:
    """The output of every epoch, ordered."""
    records = sides(rows, query)
    bucket = records["phone"].map(lambda phone: int(phone[-4:], 36) % buckets)
    outputs = [
        output for _, some in records.groupby(bucket) for output, _ in folded(query, some, params)
    ]
    whole = pd.concat(outputs)
    ordered = whole.sort_values(whole.columns.drop("epoch").to_list())
    return {
        epoch: ordered[ordered["epoch"] == epoch].drop(columns="epoch").reset_index(drop=True)
        for epoch in range(int(rows["epoch"].max()) + 1)
    }


def assert_as_the_oracle_says(
    query: ModuleType, rows: pd.DataFrame, params: Mapping[str, Any], *, buckets: int = 1
) -> int:
    """Compare epoch by epoch, and return how many pairs there are."""
    expected = EXPECTED[query](rows, params, last_epoch=int(rows["epoch"].max()))
    outputs = found(query, rows, params, buckets=buckets)
    for epoch, frame in expected.items():
        pd.testing.assert_frame_equal(outputs[epoch], frame)
    return sum(map(len, expected.values()))


@both_queries
@pytest.mark.parametrize("buckets", [1, 3])
def test_pairs_of_flawed_input_are_those_of_the_oracle(query: ModuleType, buckets: int) -> None:
    random = np.random.default_rng(7)
    rows = InputFlaws(late=0.05, duplicated=0.05).distort_records(
        generator.records(20_000, 7), random
    )
    rows["epoch"] = np.sort(random.choice([0, 1, 2, 4, 5, 9], len(rows)))
    assert assert_as_the_oracle_says(query, rows, {}, buckets=buckets) > 100


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from("abc"),
            st.sampled_from("de"),
            st.integers(0, 12),
            st.integers(0, 5),
            st.sampled_from([0.0, 500.0, 1000.0]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_pairs_of_few_phones_in_any_order_are_those_of_the_oracle(events: list[Any]) -> None:
    for query in EXPECTED:
        assert_as_the_oracle_says(query, calls(*events), {"timeout": "4 seconds"})


def speeds(*events: tuple[int, int, float], **params: Any) -> list[float]:
    """Speeds put out for one phone that was seen at (epoch, time, x)."""
    others = (f"b{n}" for n in range(len(events)))
    rows = calls(*((epoch, "a", next(others), time, 0, x) for epoch, time, x in events))
    return pd.concat(found(high_mobility, rows, params).values())["speed"].to_list()


def test_a_speed_counts_from_the_threshold_on() -> None:
    assert speeds((0, 0, 0), (0, 10, 1100), (0, 20, 2199)) == [110]
    assert speeds((0, 0, 0), (0, 10, 1100), (0, 20, 2199), threshold=200) == []


def test_two_places_in_the_same_second_count_as_one_second_apart() -> None:
    assert speeds((0, 5, 0), (0, 5, 130)) == [130]
    assert speeds((0, 5, 0), (1, 5, 130)) == [130]


def test_a_record_that_comes_twice_or_late_changes_nothing() -> None:
    assert (
        speeds((0, 0, 0), (0, 10, 2000), (0, 10, 2000), (1, 10, 2000), (1, 20, 4000)) == [200] * 2
    )
    assert speeds((0, 0, 0), (0, 10, 2000), (1, 5, 90_000), (1, 20, 4000)) == [200] * 2


def test_records_further_apart_than_the_timeout_are_no_pair() -> None:
    assert speeds((0, 0, 0), (0, 60, 60_000), timeout="1 minute") == [1000]
    assert speeds((0, 0, 0), (0, 61, 61_000), timeout="1 minute") == []


def overlaps(rows: pd.DataFrame) -> list[tuple[str, int, int]]:
    pairs = pd.concat(found(overlapping_calls, rows, {}).values())
    return list(pairs[["phone", "first_end", "second_start"]].itertuples(index=False, name=None))


def test_a_call_that_begins_when_the_one_before_ends_overlaps_it() -> None:
    rows = calls((0, "a", "b", 0, 30, 0), (0, "c", "a", 30, 5, 0), (1, "a", "d", 36, 5, 0))
    assert overlaps(rows) == [("a", 30, 30)]


def test_only_consecutive_calls_are_compared() -> None:
    rows = calls((0, "a", "b", 0, 100, 0), (0, "a", "c", 10, 5, 0), (0, "a", "d", 50, 5, 0))
    assert overlaps(rows) == [("a", 100, 10)]


def test_a_call_does_not_overlap_its_own_second_copy() -> None:
    assert overlaps(calls(*[(epoch, "a", "b", 0, 30, 0.0) for epoch in (0, 0, 1)])) == []


@both_queries
def test_what_is_kept_stays_the_same_however_many_phones_come_and_go(query: ModuleType) -> None:
    hour, phones = 3600, 500
    rows = calls(
        *(
            (epoch, f"a{epoch}.{n}", f"b{epoch}.{n}", epoch * hour + n, 60, 0)
            for epoch in range(20)
            for n in range(phones)
        )
    )
    kept = [len(keep) for _, keep in folded(query, sides(rows, query), {"timeout": "40 minutes"})]
    assert kept == [2 * phones] * 20
