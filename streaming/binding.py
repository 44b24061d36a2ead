"""What a checkpoint is bound to: Spark writes it into the offsets, and goes on by it whatever is declared later.

So another value would change nothing, and nobody would be told. It is kept with each snapshot, too, so that a restore
can be judged. RocksDB's changelogs are not among it: Spark goes from and to them by itself.
"""

from resources.vault.integrity import CODEC, LZ4

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
BINDING = {
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
"""With what each is if nobody says."""
