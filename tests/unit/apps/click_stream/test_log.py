"""Which lines count as lines of an access log, and the log that the generator writes."""

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.click_stream.generator import records
from holdfast.apps.click_stream.oracle import accepted
from holdfast.apps.click_stream.rules import objections

COMMON = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?q=1 HTTP/1.0" 200 2326'
NO_LINE, NO_TIME = "not a line of an Apache access log", "there is no such time"


def objection(line: str | None) -> str | None:
    batch = pa.record_batch({"line": pa.array([line], pa.string())})
    [objection] = objections(batch).to_pylist()
    assert accepted(pd.DataFrame({"line": [line]})).tolist() == [objection is None]
    return objection


@pytest.mark.parametrize(
    "line",
    [
        COMMON,
        f'{COMMON} "http://example.com/" "Mozilla/4.08 [en] (Win98; I ;Nav)"',
        f'{COMMON} "-" "an agent with \\"quotes\\""',
        COMMON.replace("2326", "-"),
        COMMON.replace('"GET /a.gif?q=1 HTTP/1.0"', '"-"'),
        COMMON.replace("127.0.0.1", "2001:db8::1"),
        COMMON.replace("10/Oct/2000", "29/Feb/2024"),
    ],
)
def test_lines_of_both_formats_are_accepted(line: str) -> None:
    assert objection(line) is None


@pytest.mark.parametrize(
    "line",
    [None, "", "hello", COMMON[:40], f"#!{COMMON}?", COMMON.replace("200", "OK"), f'{COMMON} "-"'],
)
def test_other_lines_are_set_aside(line: str | None) -> None:
    assert objection(line) == NO_LINE


@pytest.mark.parametrize(
    "time", ["31/Feb/2000:13:55:36", "10/Okt/2000:13:55:36", "10/Oct/2000:24:00:00"]
)
def test_a_time_must_exist(time: str) -> None:
    assert objection(COMMON.replace("10/Oct/2000:13:55:36", time)) == NO_TIME


def test_the_generator_is_seeded_and_writes_only_good_lines_in_the_order_of_time() -> None:
    log = records(3000, seed=1)
    assert len(log) == 3000
    pd.testing.assert_frame_equal(log, records(3000, seed=1))
    assert not log.equals(records(3000, seed=2))
    assert objections(pa.RecordBatch.from_pandas(log)).null_count == len(log)
    assert log["line"].str.extract(r"\[(.*)\]")[0].is_monotonic_increasing
    assert log["line"].str.contains('"-" 408').any()
