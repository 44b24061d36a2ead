"""Reads an application's files with the standard library: the oracles' own view of the input.

It shares nothing with the reader of the stream, so that what is set aside can be held against it, too.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from apps.catalogue import Query

Convert: TypeAlias = Callable[[Any], Any]


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _truth(value: str | bool) -> bool:  # noqa: FBT001 - as JSON has it, or as text
    return {"true": True, "false": False}[str(value).lower()]


_FROM_TEXT: Mapping[str, Convert] = {
    "bigint": int,
    "int": int,
    "double": float,
    "string": str,
    "boolean": _truth,
    "timestamp": _instant,
    "timestamp_ntz": datetime.fromisoformat,
}
_DTYPES = {
    "bigint": "int64",
    "int": "int32",
    "double": "float64",
    "string": "object",
    "boolean": "bool",
    "timestamp": "datetime64[us, UTC]",
    "timestamp_ntz": "datetime64[us]",
}
_NULLABLE = {"int64": "Int64", "int32": "Int32", "bool": "boolean"}


@dataclass(frozen=True, slots=True)
class PlainFile:
    """The input rows of a file, and the numbers of the lines that are none."""

    rows: pd.DataFrame
    aside: tuple[int, ...]


def read(query: Query, path: Path) -> PlainFile:
    """Read a file line by line."""
    types = columns(query)
    good: list[tuple[Any, ...]] = []
    numbers: list[int] = []
    aside: list[int] = []
    with path.open(newline="") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                good.append(tuple(_values(line, types, query.declaration["source"]["format"])))
                numbers.append(number)
            except (ValueError, TypeError, KeyError, AttributeError):
                aside.append(number)
    frame = pd.DataFrame(good, columns=list(types), dtype=object)
    rows = pd.DataFrame({name: _typed(frame[name], kind) for name, kind in types.items()})
    accepted = query.accepted(rows)
    refused = [number for number, one in zip(numbers, accepted, strict=True) if not one]
    return PlainFile(
        rows[accepted.to_numpy()].reset_index(drop=True), tuple(sorted(aside + refused))
    )


def _typed(values: "pd.Series[Any]", kind: str) -> "pd.Series[Any]":
    """A column as pandas has it; with nulls in it, whole numbers and truths need types of their own."""
    dtype = _DTYPES[kind]
    with_nulls = _NULLABLE.get(dtype, dtype) if values.isna().any() else dtype
    return values.astype(pd.api.types.pandas_dtype(with_nulls))


def columns(query: Query) -> dict[str, str]:
    """Names and types of a query's input."""
    pairs = (part.split() for part in query.declaration["source"]["schema"].split(","))
    return {name: kind.lower() for name, kind in pairs}


def _values(line: str, types: Mapping[str, str], kind: str) -> Iterator[Any]:
    written = _written(line, types, kind)
    if len(written) != len(types):
        raise ValueError(f"{len(written)} values for {len(types)} columns")
    for value, type_ in zip(written, types.values(), strict=True):
        yield None if value is None or value == "" else _FROM_TEXT[type_](value)


def _written(line: str, types: Mapping[str, str], kind: str) -> Sequence[Any]:
    if kind == "csv":
        return next(csv.reader([line]))
    document = json.loads(line)
    return [document.get(name) for name in types]
