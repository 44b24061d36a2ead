"""The synthetic load's oracle, against examples worked out by hand, and its generator."""

from hashlib import sha256
from typing import Any

import pandas as pd
import pytest

from holdfast.apps.synthetic import generator
from holdfast.apps.synthetic.oracle import COLUMNS, checksum, entries, load

START = pd.Timestamp("2026-01-01T00:00:00Z")
PARAMS = {"window": "10 seconds", "delay": "5 seconds", "keys": 2, "payload_bytes": 70}


def rows(*events: tuple[int, float]) -> pd.DataFrame:
    """Rows as (epoch, second), numbered."""
    return pd.DataFrame(
        {
            "epoch": [epoch for epoch, _ in events],
            "event_time": [START + pd.Timedelta(seconds=second) for _, second in events],
            "offset": range(len(events)),
            "value": 0.5,
        }
    )


def rows_of(frame: pd.DataFrame) -> list[list[Any]]:
    seconds = (frame["window_end"] - START).dt.total_seconds()
    return frame.assign(window_end=seconds)[["window_end", "entry", "events"]].to_numpy().tolist()


def test_a_window_is_put_out_once_the_watermark_has_reached_its_end() -> None:
    output = load(rows((0, 1), (0, 2), (0, 3), (1, 15), (2, 16), (3, 4)), PARAMS, last_epoch=3)
    assert [rows_of(output[epoch]) for epoch in (0, 1, 3)] == [[], [], []]
    assert rows_of(output[2]) == [[10, 0, 2], [10, 1, 1]]


def test_an_empty_epoch_puts_out_what_the_one_before_it_has_outdated() -> None:
    output = load(rows((0, 1), (0, 40)), PARAMS, last_epoch=2)
    assert [rows_of(output[epoch]) for epoch in range(3)] == [[], [[10, 0, 1]], []]


def test_no_rows_make_no_output_but_all_columns() -> None:
    output = load(rows((0, 1)).iloc[:0], PARAMS, last_epoch=1)
    assert [list(frame.columns) for frame in output.values()] == [COLUMNS, COLUMNS]


def test_a_checksum_is_what_a_row_hashes_to_in_so_many_rounds() -> None:
    once = sha256(b"7").hexdigest()
    assert checksum(7, 1) == int(once[:8], 16)
    assert checksum(7, 2) == int(sha256(once.encode()).hexdigest()[:8], 16)
    assert checksum(12, 0) == 0x12


def test_rows_are_entries_of_their_own_or_go_round_or_follow_a_power_law() -> None:
    events = generator.records(50_000, 1)
    assert pd.Series(entries(events, {})).is_unique
    assert pd.Series(entries(events, {"keys": 10})).value_counts().nunique() == 1
    for skew, ratio in ((0.5, 1.414), (1.0, 2.0), (1.5, 2.83)):
        counts = pd.Series(entries(events, {"keys": 100, "skew": skew})).value_counts()
        assert set(counts.index) == set(range(100))
        assert counts[10:13].sum() / counts[21:24].sum() == pytest.approx(ratio, rel=0.15)


def test_the_generator_has_bursts_and_is_seeded() -> None:
    first, second = (generator.records(5_000, 3) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    assert list(first.columns) == [part.split()[0] for part in generator.COLUMNS.split(", ")]
    assert first["event_time"].is_monotonic_increasing
    times = pd.to_datetime(first["event_time"])
    per_second = times.dt.floor("s").value_counts().sort_index().to_list()
    assert per_second[:21] == [250, 250, *[25] * 18, 250]
