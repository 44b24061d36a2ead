"""Streams as the doctor reads them, with defaults for what a test does not care about."""

from dataclasses import replace
from typing import Any

from holdfast.ft_policies.doctor.facts import (
    NOTHING,
    CheckpointFacts,
    ExaminedStream,
    RecordFacts,
    SnapshotFacts,
    TableCommit,
)

PRIMARY = "words-1"


def a_well_stream(**changes: Any) -> ExaminedStream:
    """A live stream with epochs 0 to 9 and snapshots after 3 and 7; 100 rows an epoch."""
    facts: dict[str, Any] = {
        "stream": "words",
        "wanted": True,
        "primary": PRIMARY,
        "primary_epoch": 9,
        "checkpoint": a_checkpoint(),
        "snapshots": (a_snapshot(7), a_snapshot(3)),
        "records": records(),
        "rows_in_all": 1000,
        "rows_per_second": 200.0,
    }
    return ExaminedStream(**{**facts, **changes})


def stopped(stream: ExaminedStream) -> ExaminedStream:
    """The same stream, stopped."""
    checkpoint = stream.checkpoint and replace(stream.checkpoint, live=False)
    return replace(stream, wanted=False, primary=None, primary_epoch=NOTHING, checkpoint=checkpoint)


def a_checkpoint(**changes: Any) -> CheckpointFacts:
    """One that has finished epoch 9."""
    facts: dict[str, Any] = {
        "where": "/home/checkpoint",
        "replica": PRIMARY,
        "live": True,
        "has_metadata": True,
        "offsets": tuple(range(2, 10)),
        "commits": tuple(range(2, 10)),
    }
    return CheckpointFacts(**{**facts, **changes})


def a_snapshot(epoch: int, **changes: Any) -> SnapshotFacts:
    """One of a stream whose last epoch is 9."""
    facts: dict[str, Any] = {
        "id": f"{epoch:012d}-1-{PRIMARY}",
        "epoch": epoch,
        "replica": PRIMARY,
        "rows_after": (9 - epoch) * 100,
    }
    return SnapshotFacts(**{**facts, **changes})


def records(**changes: Any) -> RecordFacts:
    """Epoch log, ledger and table that agree on epochs 0 to 9."""
    facts: dict[str, Any] = {"last_decided": 9, "last_entered": 9, "newest_written": 9}
    return RecordFacts(**{**facts, **changes})


def a_commit(epoch: int, rows: int | None = 100) -> TableCommit:
    """An epoch in the table."""
    return TableCommit(epoch=epoch, replica=PRIMARY, token=1, rows=rows, digest=f"d{epoch}")
