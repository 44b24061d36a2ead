"""Quantities as users write them."""

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.configs.units import ByteSize, ConfValue, Duration, Moment, Reference

DURATION = TypeAdapter[float](Duration)
BYTES = TypeAdapter[int](ByteSize)
REFERENCE = TypeAdapter[str](Reference)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (10, 10),
        (0.5, 0.5),
        ("10", 10),
        ("10s", 10),
        ("500ms", 0.5),
        ("5m", 300),
        ("1.5 h", 5400),
        ("7d", 604800),
    ],
)
def test_a_duration_is_read_in_seconds(written: object, seconds: float) -> None:
    assert DURATION.validate_python(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", [0, -1, "-5s", "10 weeks", "s", "", True, None, [1], "4000d"])
def test_what_is_no_positive_duration_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(written)


@pytest.mark.parametrize(
    ("written", "size"), [(1, 1), ("64MB", 64 * 1024**2), ("1.5KiB", 1536), ("2GB", 2 * 1024**3)]
)
def test_a_size_is_read_in_bytes(written: object, size: int) -> None:
    assert BYTES.validate_python(written) == size


@pytest.mark.parametrize("written", [0, "64mb", "MB", True, "1e9 B"])
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        BYTES.validate_python(written)


@pytest.mark.parametrize("written", ["build", "a.b", "a:b:c", "a-b:c", ".a:b", "a:b.c", "a:"])
def test_a_reference_is_a_module_and_a_function(written: str) -> None:
    assert REFERENCE.validate_python("holdfast.apps.word_count.stream:build")
    with pytest.raises(ValidationError, match="must be module:function"):
        REFERENCE.validate_python(written)


def test_numbers_and_booleans_become_the_text_that_spark_takes() -> None:
    adapter = TypeAdapter[str](ConfValue)
    assert [adapter.validate_python(v) for v in (2, True, "x")] == ["2", "true", "x"]


def test_a_moment_without_a_zone_is_utc() -> None:
    moment = TypeAdapter[datetime](Moment).validate_python("2026-01-31T12:00:00")
    assert moment == datetime(2026, 1, 31, 12, tzinfo=UTC)
