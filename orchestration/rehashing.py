"""The job that hashes a table again, to prove that it still is what was committed."""

import dagster as dg
from pydantic import Field

from assets.failures import explained
from assets.keys import output_key
from assets.worlds import Worlds
from orchestration.jobs import StreamConfig
from orchestration.reporting import name_stream, playbook_tags


class RehashConfig(StreamConfig):
    """Whose table to hash, and how much of it."""

    newest_epochs: int = Field(default=200, ge=1, description="How far to look back.")


@dg.op(description="Hash the rows of the newest epochs again, and hold them against the ledger.")
def rehash(
    context: dg.OpExecutionContext, config: RehashConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Fail if an epoch's rows are not what the ledger says they were."""
    from assets.rehashing import bounded_spark, rehash as rehash_table  # Spark is slow to import

    name_stream(context, config.stream)
    with explained(), worlds.open() as world, bounded_spark() as spark:
        found = rehash_table(world, config.stream, spark, newest=config.newest_epochs)
    metadata = {"epochs_hashed": len(found.epochs), "epochs_differing": len(found.differing)}
    context.log_event(dg.AssetObservation(output_key(config.stream), metadata=metadata))
    context.add_output_metadata(metadata)
    if found.differing:
        raise dg.Failure(
            f"rows of epochs {found.differing[:20]} are not those that were committed",
            metadata={"hint": "somebody changed the table, or its disk did; the ledger is right"},
            allow_retries=False,
        )


@dg.job(
    description="Hashes the rows of a stream's table again with Spark and compares each epoch with "
    "the ledger: proves that what was committed is still there, unchanged.",
    tags=playbook_tags("rehash", max_runtime_seconds=3600),
    executor_def=dg.in_process_executor,
)
def rehash_output() -> None:
    """Prove one table."""
    rehash()
