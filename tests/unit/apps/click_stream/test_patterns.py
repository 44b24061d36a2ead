"""The fold of the click stream, without Spark: against its oracle, and examples by hand."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.apps.click_stream import oracle
from holdfast.apps.click_stream.generator import records
from holdfast.apps.click_stream.log_format import HOST, LINE, OFFSET, PATH, TIME, USER
from holdfast.apps.click_stream.top_patterns import ORDER, build_fold
from holdfast.apps.input_flaws import NO_FLAWS, InputFlaws
from holdfast.apps.keyed_fold import _from_bytes, _to_bytes

SMALL = {
    "length": 2,
    "within": "10 seconds",
    "window": "20 seconds",
    "slide": "5 seconds",
    "delay": "3 seconds",
    "k": 2,
}
START = pd.Timestamp("2026-01-01T00:00:00Z")


def line(second: int, visitor: str, path: str) -> str:
    time = (START + pd.Timedelta(seconds=second)).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{visitor} - - [{time}] "GET {path} HTTP/1.1" 200 1'


def lines(*events: tuple[int, int, str, str]) -> pd.DataFrame:
    """Rows as (epoch, second after the start, visitor, path)."""
    return pd.DataFrame(
        {
            "epoch": [epoch for epoch, *_ in events],
            "line": [line(second, visitor, path) for _, second, visitor, path in events],
        }
    )


def requests(rows: pd.DataFrame) -> pd.DataFrame:
    """What Spark makes of the lines before it folds them."""
    matches = [re.fullmatch(LINE, text) for text in rows["line"]]
    parts = pd.DataFrame([match.groups() for match in matches if match]).rename(
        columns=lambda at: at + 1
    )
    times = pd.to_datetime(parts[TIME] + parts[OFFSET], format="%d/%b/%Y:%H:%M:%S%z")
    return pd.DataFrame(
        {
            "epoch": rows["epoch"].to_numpy(),
            "at": times.astype("int64") // 10**9,
            "visitor": parts[USER].where(parts[USER] != "-", parts[HOST]),
            "path": parts[PATH],
        }
    ).dropna()


def folded(
    rows: pd.DataFrame, params: dict[str, Any]
) -> Iterator[tuple[int, pd.DataFrame, pd.DataFrame]]:
    """Epoch, output and what is kept after it."""
    fold, kept = build_fold(params), None
    for epoch, come in requests(rows).groupby("epoch"):
        ordered = come.drop(columns="epoch").sort_values(list(ORDER), ignore_index=True)
        output, left = fold(ordered, kept)
        kept = _from_bytes(_to_bytes(left))
        at = pd.to_datetime(output["at"], unit="s", utc=True).astype("datetime64[us, UTC]")
        yield int(str(epoch)), output.assign(at=at), kept


def assert_as_expected(rows: pd.DataFrame, params: dict[str, Any]) -> None:
    outputs = {epoch: output for epoch, output, _ in folded(rows, params)}
    expected = oracle.top_patterns(rows, params, last_epoch=int(rows["epoch"].max()))
    for epoch, frame in expected.items():
        pd.testing.assert_frame_equal(outputs.get(epoch, frame.iloc[:0]), frame)


def rankings(rows: pd.DataFrame) -> list[tuple[int, int, list[tuple[str | None, int]]]]:
    """Epoch, second and the two places of each change."""
    assert_as_expected(rows, SMALL)
    return [
        (
            epoch,
            int((at - START).total_seconds()),
            [*zip(group["pattern"], group["count"], strict=True)],
        )
        for epoch, output, _ in folded(rows, SMALL)
        for at, group in output.groupby("at")
    ]


def test_patterns_are_ranked_at_the_next_slide_and_leave_when_the_window_has_passed() -> None:
    events = lines((0, 0, "a", "/"), (0, 4, "a", "/x"), (1, 40, "b", "/"))
    assert rankings(events) == [
        (1, 5, [("/ > /x", 1), (None, 0)]),
        (1, 25, [(None, 0), (None, 0)]),
    ]


def test_only_a_change_of_the_places_is_given_out_and_equal_counts_go_by_name() -> None:
    events = lines(
        *((0, 1, who, path) for who in "ab" for path in ("/", "/x")),
        *((0, 6, who, path) for who in "cd" for path in ("/", "/w")),
        (0, 7, "e", "/"),
        (0, 8, "e", "/x"),
        (0, 13, "z", "/"),
    )
    assert rankings(events) == [
        (0, 5, [("/ > /x", 2), (None, 0)]),
        (0, 10, [("/ > /x", 3), ("/ > /w", 2)]),
    ]


def test_requests_too_far_apart_or_of_different_visitors_are_no_pattern() -> None:
    events = lines((0, 0, "a", "/"), (0, 11, "a", "/x"), (0, 12, "b", "/y"), (1, 60, "c", "/"))
    assert rankings(events) == []


def test_a_late_request_takes_its_place_in_time_until_the_delay_is_over() -> None:
    events = lines((0, 1, "a", "/"), (0, 4, "a", "/y"), (1, 2, "a", "/x"), (2, 20, "c", "/"))
    assert rankings(events) == [(2, 5, [("/ > /x", 1), ("/x > /y", 1)])]
    late = lines((0, 1, "a", "/"), (0, 6, "a", "/y"), (1, 2, "a", "/x"), (2, 20, "c", "/"))
    assert rankings(late) == [(2, 10, [("/ > /y", 1), (None, 0)])]


def test_the_window_must_be_a_multiple_of_the_slide() -> None:
    with pytest.raises(ValueError, match="multiple"):
        build_fold({"window": "15 seconds", "slide": "10 seconds"})


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 90), st.sampled_from("ab"), st.sampled_from("xyz")
        ),
        min_size=1,
        max_size=40,
    )
)
def test_any_requests_in_any_epochs_are_ranked_as_the_oracle_says(
    events: list[tuple[int, int, str, str]],
) -> None:
    assert_as_expected(lines(*sorted(events, key=lambda event: event[0])), SMALL)


def test_flawed_requests_in_random_epochs_are_ranked_as_the_oracle_says() -> None:
    random = np.random.default_rng(7)
    arriving = InputFlaws(late=0.05).distort_records(records(6_000, seed=7), random)
    epochs = np.sort(random.integers(0, 12, len(arriving)))
    params = {"window": "1 minute", "within": "1 minute", "delay": "3 seconds"}
    assert_as_expected(arriving.assign(epoch=epochs), params)


def test_what_is_kept_does_not_grow_with_time() -> None:
    clean = NO_FLAWS.distort_records(records(16_000, seed=3), np.random.default_rng(3))
    params = {"window": "30 seconds", "within": "30 seconds"}
    epochs = np.arange(len(clean)) // 1000
    kept = [len(left) for *_, left in folded(clean.assign(epoch=epochs), params)]
    assert max(kept[8:]) < 1.2 * max(kept[4:8])
