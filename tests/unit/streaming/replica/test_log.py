"""The log of a replica: its times are UTC, whatever the zone of the host."""

import logging
import time

import pytest

from holdfast.streaming.replica.__main__ import log_formatter


def test_a_line_has_its_time_in_utc_on_a_host_with_another_zone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = logging.LogRecord("replica", logging.INFO, __file__, 1, "fenced", None, None)
    record.created, record.msecs = 86400.25, 250.0
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        line = log_formatter().format(record)
    time.tzset()
    assert line == "1970-01-02 00:00:00.250Z INFO replica: fenced"
