"""An application that kills its own driver at a chosen point of an epoch.

A stream under test names `tests.live.faults:build` as its app. Inside the driver it wraps the
sink, the ledger and the object store: when the point is reached that the file `fault.json` in the
project folder, or that of one replica, names, the file is removed and the driver kills itself with -9. Production code
knows nothing of it.
"""

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from holdfast.apps.word_count.stream import build as build_word_count
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.streaming.sinks.delta.sink import DeltaSink
from holdfast.streaming.sinks.ledger_writer import LedgerWriter

FILE = Path("fault.json")
HALF_OUT = (
    "between staging and commit",
    "between commit and ledger",
    "between ledger and Spark's commit",
)
POINTS = ("before staging", *HALF_OUT, "between pack and manifest")


def arm(project: Path, point: str, after_epoch: int, *, replica: str | None = None) -> None:
    """Let the driver die the first time it gets to `point` of an epoch after this one.

    Without a replica it is whichever driver gets there first.
    """
    assert point in POINTS
    file = project / (FILE if replica is None else _file_of(replica))
    scratch = file.with_suffix(".tmp")
    scratch.write_text(json.dumps({"point": point, "after_epoch": after_epoch}))
    scratch.rename(file)


def disarm(project: Path, replica: str) -> bool:
    """Let this replica live, if it does; false if it has come to the point, and so killed itself."""
    try:
        (project / _file_of(replica)).unlink()
    except FileNotFoundError:
        return False
    return True


def _file_of(replica: str) -> Path:
    return FILE.with_stem(f"{FILE.stem}-{replica}")


def build(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """Word count, with the traps laid."""
    _wrap(DeltaSink, "stage", before="before staging", epoch=lambda a: a[2])
    _wrap(DeltaSink, "commit", before="between staging and commit", epoch=_committed_epoch)
    _wrap(
        LedgerWriter,
        "write",
        before="between commit and ledger",
        after="between ledger and Spark's commit",
        epoch=lambda a: a[1],
    )
    _wrap(S3ObjectStore, "put", before="between pack and manifest", epoch=_shipped_epoch)
    return build_word_count(df, params)


def _committed_epoch(arguments: tuple[Any, ...]) -> int:
    _, staged, epoch = arguments
    return int(epoch) if staged.files else -1


def _shipped_epoch(arguments: tuple[Any, ...]) -> int:
    key = arguments[1]
    return int(key.rsplit("/", 1)[1][:12]) if "/manifests/" in key else -1


def _wrap(
    owner: type,
    name: str,
    *,
    epoch: Callable[[tuple[Any, ...]], int],
    before: str = "",
    after: str = "",
) -> None:
    original = getattr(owner, name)
    if hasattr(original, "trapped"):
        return

    @functools.wraps(original)
    def trapped(*arguments: Any, **named: Any) -> Any:
        _die_at(before, epoch(arguments))
        result = original(*arguments, **named)
        _die_at(after, epoch(arguments))
        return result

    trapped.trapped = True  # type: ignore[attr-defined]
    setattr(owner, name, trapped)


def _die_at(point: str, epoch: int) -> None:
    for file in (FILE, _file_of(Path(sys.argv[-1]).name)):  # started with `--folder FOLDER`
        try:
            armed = json.loads(file.read_text())
        except FileNotFoundError:
            continue
        if armed["point"] == point and epoch > armed["after_epoch"]:
            file.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)
