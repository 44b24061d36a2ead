"""The oracle, against an example worked out by hand: windows of 10 s, a delay of 5 s."""

from collections.abc import Sequence

import pandas as pd

from holdfast.apps.word_count.oracle import COLUMNS, expected
from holdfast.apps.word_count.vocabulary import VOCABULARY

PARAMS = {"window": "10 seconds", "delay": "5 seconds"}
START = pd.Timestamp("2026-01-01T00:00:00Z")


def rows(*events: tuple[int, float, int]) -> pd.DataFrame:
    """Rows as (epoch, second after the start, key)."""
    return pd.DataFrame(
        {
            "epoch": [epoch for epoch, _, _ in events],
            "event_time": [START + pd.Timedelta(seconds=second) for _, second, _ in events],
            "key": [key for _, _, key in events],
        }
    )


def output(frame: pd.DataFrame) -> Sequence[tuple[float, float, str, int]]:
    return [
        ((start - START).total_seconds(), (end - START).total_seconds(), word, int(count))
        for start, end, word, count in frame.itertuples(index=False)
    ]


def test_a_window_closes_in_the_epoch_after_the_watermark_has_passed_its_end() -> None:
    events = rows((0, 1, 0), (0, 2, 1), (0, 3, 0), (1, 14.9, 0), (2, 15, 1), (3, 16, 1))
    counts = expected(events, PARAMS, last_epoch=3)
    assert [output(counts[epoch]) for epoch in range(3)] == [[], [], []]
    assert output(counts[3]) == [(0, 10, VOCABULARY[0], 2), (0, 10, VOCABULARY[1], 1)]


def test_a_row_still_counts_in_the_epoch_that_closes_its_window_and_not_after() -> None:
    events = rows((0, 1, 0), (1, 15, 0), (2, 2, 0), (3, 3, 0))
    counts = expected(events, PARAMS, last_epoch=3)
    assert output(counts[2]) == [(0, 10, VOCABULARY[0], 2)]
    assert output(counts[3]) == []


def test_empty_epochs_close_what_the_epoch_before_them_outdated() -> None:
    counts = expected(rows((0, 1, 0), (0, 40, 0)), PARAMS, last_epoch=2)
    assert [output(counts[epoch]) for epoch in range(3)] == [[], [(0, 10, VOCABULARY[0], 1)], []]


def test_the_watermark_never_goes_back() -> None:
    counts = expected(rows((0, 21, 0), (1, 30, 0), (2, 22, 0), (3, 35, 0)), PARAMS, last_epoch=4)
    assert output(counts[4]) == [(20, 30, VOCABULARY[0], 2)]


def test_the_watermark_counts_in_milliseconds() -> None:
    late = expected(rows((0, 1, 0), (0, 14.9999, 0)), PARAMS, last_epoch=1)
    assert output(late[1]) == []
    on_time = expected(rows((0, 1, 0), (0, 15.0009, 0)), PARAMS, last_epoch=1)
    assert output(on_time[1]) == [(0, 10, VOCABULARY[0], 1)]


def test_keys_go_round_the_vocabulary() -> None:
    counts = expected(rows((0, 1, len(VOCABULARY)), (0, 2, 0), (0, 99, 0)), PARAMS, last_epoch=1)
    assert output(counts[1]) == [(0, 10, VOCABULARY[0], 2)]


def test_no_rows_make_no_output_but_all_columns() -> None:
    output = expected(rows(), PARAMS, last_epoch=1)
    assert [list(frame.columns) for frame in output.values()] == [COLUMNS, COLUMNS]
    assert all(frame.empty for frame in output.values())


def test_times_do_not_depend_on_how_pandas_stores_them() -> None:
    events = rows((0, 1, 0), (0, 99, 0))
    naive = events.assign(
        event_time=events["event_time"].dt.tz_localize(None).astype("datetime64[ms]")
    )
    [first, second] = (expected(frame, PARAMS, last_epoch=1)[1] for frame in (events, naive))
    pd.testing.assert_frame_equal(first, second)
    assert str(first["window_end"].dtype) == "datetime64[us, UTC]"
