"""The load and the two sizes of state that the failover and the migration benchmark share."""

from dataclasses import dataclass

PAYLOAD_BYTES, SEED, PARTS = 1024, 3, 2
RATE, FILL_RATE, BATCH_ROWS = 500, 20_000, 20_000
# Two drivers share two cores: an epoch takes either of them most of a second.
EPOCH_SECONDS, CHECKPOINT_EVERY, SYNC_EVERY = 1.5, "5s", "5s"
MASTER, MEMORY = "local[2]", "2g"
SPARK_CONF = {
    "spark.sql.shuffle.partitions": str(PARTS),
    # Spark looks each minute whether its state needs a new snapshot. A stream that is killed more often
    # than that would have ever more deltas to load, and each kill would take longer than the one before.
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
}
SETTLE_EPOCHS = 5
QUIET_SECONDS = 15.0
# Kills come at all phases of an epoch and of a snapshot, and at the same ones for each contender.
PHASES = (0.0, 1.13, 2.29, 0.41, 3.07, 1.71, 2.63)


@dataclass(frozen=True, slots=True)
class State:
    """A state of a chosen size: so many keys of `PAYLOAD_BYTES` each."""

    name: str
    keys: int


STATES = {"small": State("small", 10_000), "large": State("large", 200_000)}
