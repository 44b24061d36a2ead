"""Reads an application's files with the standard library: the oracles' own view of the input.

It shares no code with the reader of the stream, so that it can check the stream's dead letters, too.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from holdfast.apps.catalogue import Query

Convert: TypeAlias = Callable[[Any], Any]


def _parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _parse_boolean(value: str | bool) -> bool:  # noqa: FBT001 - as JSON has it, or as text
    return {"true": True, "false": False}[str(value).lower()]


_FROM_TEXT: Mapping[str, Convert] = {
    "bigint": int,
    "int": int,
    "double": float,
    "string": str,
    "boolean": _parse_boolean,
    "timestamp": _parse_timestamp,
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
class ReferenceFile:
    """The input rows of a file, and the numbers of its rejected lines."""

    rows: pd.DataFrame
    rejected: tuple[int, ...]


def read_file(query: Query, path: Path) -> ReferenceFile:
    """Read a file line by line; a line that cannot be parsed, or that the oracle rejects, is not input."""
    types = parse_schema(query)
    values: list[tuple[Any, ...]] = []
    numbers: list[int] = []
    rejected: list[int] = []
    with path.open(newline="") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                values.append(
                    tuple(_parse_line(line, types, query.declaration["source"]["format"]))
                )
                numbers.append(number)
            except (ValueError, TypeError, KeyError, AttributeError):
                rejected.append(number)
    frame = pd.DataFrame(values, columns=list(types), dtype=object)
    rows = pd.DataFrame({name: _convert_column(frame[name], kind) for name, kind in types.items()})
    accepted = query.accepted(rows)
    refused = [number for number, is_input in zip(numbers, accepted, strict=True) if not is_input]
    return ReferenceFile(
        rows[accepted.to_numpy()].reset_index(drop=True), tuple(sorted(rejected + refused))
    )


def _convert_column(values: "pd.Series[Any]", kind: str) -> "pd.Series[Any]":
    """A column with its pandas type; whole numbers and booleans with nulls need nullable types."""
    dtype = _DTYPES[kind]
    with_nulls = _NULLABLE.get(dtype, dtype) if values.isna().any() else dtype
    return values.astype(pd.api.types.pandas_dtype(with_nulls))


def parse_schema(query: Query) -> dict[str, str]:
    """Names and types of a query's input."""
    pairs = (part.split() for part in query.declaration["source"]["schema"].split(","))
    return {name: kind.lower() for name, kind in pairs}


def _parse_line(line: str, types: Mapping[str, str], kind: str) -> Iterator[Any]:
    texts = _split_line(line, types, kind)
    if len(texts) != len(types):
        raise ValueError(f"{len(texts)} values for {len(types)} columns")
    for value, type_ in zip(texts, types.values(), strict=True):
        yield None if value is None or value == "" else _FROM_TEXT[type_](value)


def _split_line(line: str, types: Mapping[str, str], kind: str) -> Sequence[Any]:
    if kind == "csv":
        return next(csv.reader([line]))
    document = json.loads(line)
    return [document.get(name) for name in types]
