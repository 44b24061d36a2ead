"""Quantities as declarations write them: durations, sizes, names of Python functions.

Every type carries its bounds, so that a loaded declaration needs no further checks of single values.
"""

import os
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "B": 1} | {
    unit: 1024**power
    for power, two in enumerate(("KB", "MB", "GB", "TB"), 1)
    for unit in (two, two[0] + "iB")
}
FIRST_YEAR, END_YEAR = 1970, 2200
_S3_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.{1,2}(/|$))[^\0/?#]+)*/?")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
MOST_PATH_BYTES, MOST_NAME_BYTES = 4095, 255


class Section(BaseModel):
    """A part of a declaration: immutable, and an unknown field is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_default=True,
        allow_inf_nan=False,
    )


def relation_error(at: tuple[str, ...], message: str) -> PydanticCustomError:
    """The error of a violated relation between fields, reported at the field `at`."""
    return PydanticCustomError("relation", "{message}", {"message": message, "at": at})


def parse_duration(written: Any) -> float:
    """Seconds of 10, "10s", "500ms", "5m", "1h" or "7d"."""
    return _parse(written, _SECONDS, "a duration such as 10, 500ms, 10s, 5m, 1h or 7d")


def parse_bytes(written: Any) -> int:
    """Bytes of 1048576, "64MB" or "64MiB"; units are powers of 1024."""
    return int(_parse(written, _BYTES, "a size such as 1048576, 64MB or 2GB"))


def _parse(written: Any, units: dict[str, float] | dict[str, int], allowed: str) -> float:
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        return float(written)
    match = _QUANTITY.fullmatch(written.strip()) if isinstance(written, str) else None
    if match is None or match[2] not in units:
        raise PydanticCustomError("quantity", "must be {allowed}", {"allowed": allowed})
    return float(match[1]) * units[match[2]]


def _conf_value(written: Any) -> Any:
    """Text, since Spark accepts nothing else; YAML parses numbers and booleans."""
    if isinstance(written, bool):
        return str(written).lower()
    return str(written) if isinstance(written, (int, float)) else written


def _in_utc(moment: datetime) -> datetime:
    # Years first: next to year 1 or 9999 a time zone leads out of what Python can express.
    if not FIRST_YEAR <= moment.year < END_YEAR:
        allowed = f"a time from {FIRST_YEAR} to {END_YEAR - 1}"
        raise PydanticCustomError("shape", "must be {allowed}", {"allowed": allowed})
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _check_location(path: str) -> str:
    return (
        path
        if _S3_URL.fullmatch(path)
        else _check_path(path, ", or s3://bucket/folder without empty parts, . and ..")
    )


def _check_path(path: str, alternative: str = "") -> str:
    expanded = os.path.expanduser(path)  # noqa: PTH111 - it keeps the name of an unknown user
    sizes = [len(os.fsencode(part)) for part in (expanded, *expanded.split("/"))]
    too_long = sizes[0] > MOST_PATH_BYTES or max(sizes[1:]) > MOST_NAME_BYTES
    if "://" in path or "\0" in path or expanded.startswith("~") or too_long:
        allowed = f"a folder of this machine{alternative}"
        raise PydanticCustomError("shape", "must be {allowed}", {"allowed": allowed})
    return path


def has_valid_port(url: str) -> bool:
    """Whether a URL has no port, or one from 1 to 65535."""
    place = re.split(r"[/?]", url.partition("://")[2].rpartition("@")[2])[0]
    _, colon, port = place.rpartition("]")[2].rpartition(":")
    return not colon or (port.isdigit() and 1 <= int(port[:6]) <= 65535)


def check_port(url: str) -> str:
    """The URL; a validation error if its port is none."""
    if not has_valid_port(url):
        raise PydanticCustomError(
            "shape",
            "must have a port from 1 to 65535, or none (write / and @ in a password as %2F and %40)",
        )
    return url


def matches_pattern(pattern: str, allowed: str) -> AfterValidator:
    """A validator of text; `allowed` describes the pattern in messages."""
    shape = re.compile(pattern)

    def check(written: str) -> str:
        if shape.fullmatch(written) is None:
            raise PydanticCustomError("shape", "must be {allowed}", {"allowed": allowed})
        return written

    return AfterValidator(check)


TEN_YEARS = 10 * 365 * 86400.0
SHORTEST = 0.001
DAY = 86400.0

Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=SHORTEST, le=TEN_YEARS)]
Pause = Annotated[float, BeforeValidator(parse_duration), Field(ge=SHORTEST, le=DAY)]
LongDuration = Annotated[float, BeforeValidator(parse_duration), Field(ge=3600.0, le=TEN_YEARS)]
ByteSize = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0, le=1024**5)]
Moment = Annotated[datetime, AfterValidator(_in_utc)]
Integer = Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=10**15)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
RowsPerSecond = Annotated[float, Field(strict=True, ge=0, le=1e9)]
Text = Annotated[str, Field(min_length=1)]
LocalFolder = Annotated[str, Field(min_length=1), AfterValidator(_check_path)]
Location = Annotated[str, Field(min_length=1), AfterValidator(_check_location)]
Name = Annotated[
    str,
    Field(max_length=63),
    matches_pattern(
        "[a-z][a-z0-9_]*", "lower-case letters, digits and underscores, a letter first"
    ),
]
Reference = Annotated[
    str,
    matches_pattern(
        r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*",
        "module:function, such as holdfast.apps.word_count.stream:build",
    ),
]
ConfValue = Annotated[str, BeforeValidator(_conf_value)]
EnvironmentVariable = Annotated[
    str, matches_pattern("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")
]
