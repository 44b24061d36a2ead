"""The input files of a soak: lines of JSON, of which some files have a few that cannot be read, and how they are checked."""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from holdfast.streaming.sources.base import Json, Split

FILE_SECONDS, FILE_ROWS = 1.5, 60
COLUMNS = "event_time timestamp, key int"
BROKEN_LINES = ('{"event_time": "2026-01-', '{"event_time": "soon", "key": 3}', '{"key": "many"}')
"""No row of the declared columns: cut short, no time, no number."""
BROKEN_POSITIONS = range(FILE_ROWS + 1, FILE_ROWS + len(BROKEN_LINES) + 1)


def build_lines(number: int) -> str:
    """The rows of a file, a function of its number."""
    times = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(
        [number * FILE_SECONDS + row / FILE_ROWS for row in range(FILE_ROWS)], unit="s"
    )
    keys = [(number * 7 + row * row) % 100 for row in range(FILE_ROWS)]
    rows = zip(times.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), keys, strict=True)
    return "".join(json.dumps({"event_time": at, "key": key}) + "\n" for at, key in rows)


def read_rows(text: str) -> list[dict[str, Any]]:
    """The rows of a file as Python and pandas read them, without the lines that are none."""
    return [row for line in text.splitlines() if (row := _parse(line)) is not None]


def _parse(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
        return {"event_time": pd.Timestamp(row["event_time"]), "key": int(row["key"])}
    except (ValueError, KeyError):
        return None


def write_input(folder: Path, over: threading.Event) -> None:
    """A file every moment; a folder that is away is waited for."""
    number = 0
    while not over.wait(FILE_SECONDS):
        try:
            add_file(folder, f"{number:08}.jsonl", build_lines(number))
        except FileNotFoundError:
            continue
        number += 1


def write_broken_file(folder: Path, number: int) -> str:
    """A file that ends with lines that cannot be read; its name."""
    name = f"{number:08}-broken.jsonl"
    add_file(folder, name, build_lines(number) + "\n".join(BROKEN_LINES) + "\n")
    return name


def add_file(folder: Path, name: str, text: str) -> None:
    """Let a whole file appear in the folder; `FileNotFoundError` if that is away."""
    scratch = folder.parent / f"{name}.next"
    scratch.write_text(text)
    scratch.rename(folder / name)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The input files as pandas reads them."""

    folder: Path

    def splits(self, taken: Json) -> Sequence[Split]:
        return [Split(input=file) for file in taken["files"]]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = read_rows((self.folder / split.input["name"]).read_text())
        if rows:
            yield from pa.Table.from_pylist(rows).to_batches()


def find_wrong_dead_letters(rejected: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """What differs between a dead-letter table and one that has each line of these broken files once."""
    written = Counter(zip(rejected["file"], rejected["position"].astype(int), strict=True))
    wanted = Counter((name, line) for name in names for line in BROKEN_POSITIONS)
    lost = [f"{name}:{line} is missing" for name, line in sorted((wanted - written).elements())]
    extra = [
        f"{name}:{line} is once too often" for name, line in sorted((written - wanted).elements())
    ]
    return [*lost, *extra]
