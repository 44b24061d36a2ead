"""Starting the streaming query of a replica, and reading what its failure means."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from configs.references import load
from configs.sinks import CallableSink as CallableDeclaration, DeltaSink as DeltaDeclaration
from ft_policies.query_failures import FailureKind
from streaming.epoch_source import FORMAT, REHEARSAL
from streaming.sinks.base import Sink
from streaming.sinks.dead_letters import DeadLetterTable
from streaming.sinks.delta import DeltaSink
from streaming.sinks.ledgering import Ledgering
from streaming.sinks.own import CallableSink
from streaming.sinks.sending import Sender
from streaming.spec import ReplicaSpec

HEALS_BY_ITSELF = (
    "ft_policies.errors.TransientError",
    "No space left on device",
    "Disk quota exceeded",
)
FAILS_AGAIN = ("ft_policies.errors.PermanentError",)


def open_sender(spec: ReplicaSpec, ledgering: Ledgering, *, sending: bool) -> Sender:
    """What a replica's epochs go through: to the declared sink, and bad records to their table."""
    dead_letters = DeadLetterTable(spec, ledgering.store) if spec.dead_letters else None
    sink = _sink(spec, ledgering)
    return Sender(sink, ledgering, sending=sending, dead_letters=dead_letters)


def _sink(spec: ReplicaSpec, ledgering: Ledgering) -> Sink:
    match spec.stream.sink:
        case DeltaDeclaration() as declared:
            return DeltaSink(spec, declared, ledgering)
        case CallableDeclaration() as declared:
            return CallableSink(load(declared.function), ledgering, spec.folder / "outbox")


def start_query(
    spark: SparkSession,
    spec: ReplicaSpec,
    sink: Callable[[DataFrame, int], None],
    checkpoint: Path,
    *,
    rehearsal: bool = False,
) -> StreamingQuery:
    """Source → the user's `build` → sink, on a checkpoint that no other query has."""
    build = load(spec.stream.app)
    source = spark.readStream.format(FORMAT).option("folder", str(spec.folder))
    rows = source.option(REHEARSAL, rehearsal).load()
    output: DataFrame = build(rows, dict(spec.stream.params))
    return (
        output.writeStream.queryName(f"{spec.stream.name}-{checkpoint.name}")
        .outputMode(spec.stream.output_mode)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(sink)
        .start()
    )


def kind_of(failure: Exception) -> FailureKind:
    """Judge a failure by its text, which is all that Spark keeps of a Python error."""
    text = f"{type(failure).__module__}.{type(failure).__name__}: {failure}"
    if any(word in text for word in HEALS_BY_ITSELF):
        return FailureKind.TRANSIENT
    if any(word in text for word in FAILS_AGAIN):
        return FailureKind.PERMANENT
    return FailureKind.UNKNOWN
