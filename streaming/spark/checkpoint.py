"""Reading the progress of a query from Spark's checkpoint folder, without Spark.

`CHECKPOINT_CONF` has the settings that a checkpoint is bound to: Spark writes them into the offsets, and silently
ignores other values that are declared later. They are kept with each snapshot, too, so that a restore can compare
them. RocksDB's changelogs are not among them: Spark can turn those on and off on an existing checkpoint.
"""

import json
from pathlib import Path
from uuid import uuid4

from holdfast.resources.vault.checkpoint.integrity import CODEC, LZ4

EMPTY_START = ".starts_after"  # a hidden file is not part of a checkpoint
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHECKPOINT_CONF = {
    SHUFFLE_PARTITIONS: "2",
    PROVIDER: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    CODEC: LZ4,
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "true",
    "spark.sql.function.protobufExtensions.enabled": "false",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "false",
    "spark.sql.streaming.aggregation.stateFormatVersion": "2",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "2",
    "spark.sql.streaming.join.stateFormatVersion": "2",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": "5",
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": "2",
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "false",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "true",
    "spark.sql.streaming.statefulOperator.useStrictDistribution": "true",
}
"""Each setting with Spark's or Holdfast's default."""


def last_committed(checkpoint: Path) -> int | None:
    """The newest epoch that Spark has finished, or `None` before the first."""
    return _newest(checkpoint / "commits")


def last_planned(checkpoint: Path) -> int | None:
    """The newest epoch that Spark has begun."""
    return _newest(checkpoint / "offsets")


def read_input_digest(checkpoint: Path, epoch: int) -> str | None:
    """The digest of the input that an epoch was planned with; `None` in a checkpoint of an older version."""
    try:
        offset = (checkpoint / "offsets" / str(epoch)).read_text().splitlines()[-1]
        digest = json.loads(offset).get("input")
    except (FileNotFoundError, IndexError, ValueError, AttributeError):
        return None
    return None if digest is None else str(digest)


def is_idle(checkpoint: Path) -> bool:
    """Whether every epoch that was begun is finished."""
    return last_planned(checkpoint) == last_committed(checkpoint)


def give_identity(checkpoint: Path) -> None:
    """Give a copied checkpoint a query id of its own.

    Spark runs a query id only once in a session: starting the copy would stop the original. The file is
    replaced and not written to, because it may be linked to the original's. Hadoop's checksum of the old
    file is removed first: with it, the new file would count as damaged.
    """
    metadata = checkpoint / "metadata"
    if metadata.exists():
        beside = checkpoint / ".metadata.new"
        beside.write_text(json.dumps({"id": str(uuid4())}, separators=(",", ":")))
        (checkpoint / ".metadata.crc").unlink(missing_ok=True)
        beside.rename(metadata)


def mark_empty_start(checkpoint: Path, after_epoch: int) -> None:
    """Request that the query on this checkpoint starts with empty state after an epoch."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / EMPTY_START).write_text(str(after_epoch))


def read_empty_start(checkpoint: Path) -> int | None:
    """After which epoch a query on this checkpoint starts with empty state; `None` if it has state or starts at epoch 0."""
    try:
        return int((checkpoint / EMPTY_START).read_text())
    except FileNotFoundError:
        return None


def renumber(checkpoint: Path, epoch: int) -> None:
    """Let the only batch of a checkpoint, which had no rows, be that of an epoch.

    Spark begins a start at the offset before the last one, which is written, too. The first change of a store is its
    whole state.
    """
    for checksum in [*checkpoint.rglob(".*.crc")]:
        checksum.unlink()
    if epoch == 0:
        return
    offsets = checkpoint / "offsets"
    *head, last = (offsets / "0").read_text().splitlines()
    before = json.dumps({**json.loads(last), "epoch": epoch - 1, "input": None})
    (offsets / "0").rename(offsets / str(epoch))
    (offsets / str(epoch - 1)).write_text("\n".join([*head, before]))
    (checkpoint / "commits" / "0").rename(checkpoint / "commits" / str(epoch))
    for first in [*(checkpoint / "state").rglob("1.delta"), *(checkpoint / "state").rglob("1.zip")]:
        whole = "snapshot" if first.suffix == ".delta" else "zip"
        first.rename(first.with_name(f"{epoch + 1}.{whole}"))


def _newest(folder: Path) -> int | None:
    try:
        numbers = [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return None
    return max(numbers, default=None)
