"""The two streams that are aged: the same query, once on a synthetic input and once on files."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KINDS = ("rate", "files")
RATE = 10
"""Rows in a second, and in an epoch."""
KEYS = 1000
PAYLOAD_BYTES = 64
INPUT = "input"
KEPT_FOR = "2d"
"""Input is deleted once a day, as soon as no restore needs it; the names of files stay for twice as long."""
COLUMNS = "offset bigint, key int, value double"


def declaration(kind: str, root: Path) -> dict[str, Any]:
    """A stream with an epoch a second; all else is as the product has it by default."""
    return {
        "name": f"age_{kind}",
        "app": "benchmarks.plain.keyed_state:build",
        "params": {"keys": KEYS, "payload_bytes": PAYLOAD_BYTES},
        "source": _rate() if kind == "rate" else _files(root),
        "output_mode": "update",
        "epoch": {"seconds": 1},
        "objective": {"recovery_time": "60s"},
        "tier": "passive_replication",
        "resources": {"driver_memory": "1g", "master": "local[2]"},
    }


def _rate() -> dict[str, Any]:
    profile = {"kind": "constant", "rows_per_second": RATE}
    return {"kind": "rate", "seed": 7, "keys": KEYS, "partitions": 1, "profile": profile}


def _files(root: Path) -> dict[str, Any]:
    files = {"kind": "files", "path": str(root / INPUT), "format": "jsonl", "schema": COLUMNS}
    return {**files, "kept_for": KEPT_FOR}


def input_name(number: int) -> str:
    """The name of an input file."""
    return f"{number:012d}.jsonl"


def input_rows(number: int) -> bytes:
    """The content of an input file: as many rows as the synthetic input has in a second."""
    first = number * RATE
    rows = ({"offset": n, "key": n % KEYS, "value": 0.5} for n in range(first, first + RATE))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@contextmanager
def feed(folder: Path) -> Iterator[None]:
    """Let a file arrive in the folder each second, numbered after those that are there."""
    folder.mkdir(exist_ok=True)
    number = 1 + max((int(path.stem) for path in folder.glob("*.jsonl")), default=-1)
    leave = threading.Event()

    def write() -> None:
        nonlocal number
        while not leave.wait(1.0):
            draft = folder / f".{input_name(number)}"
            draft.write_bytes(input_rows(number))
            draft.rename(folder / input_name(number))
            number += 1

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join()
