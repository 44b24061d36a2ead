"""What a sink must do so that a replica can process without sending.

An epoch is staged (the plan runs, the rows are digested and, where wanted, put aside) and later
committed or discarded. Between the two lies the lock of the `Sender`: whatever changes the outside
world is called under it, in the order of epochs.
"""

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from holdfast.resources.control_store.records import LedgerEntry
from holdfast.streaming.sinks.staging import Staged


class Sink(Protocol):
    """Where the output of epochs goes, each of them once."""

    def prepare(self, schema: StructType | None) -> None:
        """Open what is there, make it if a schema is given, and warm the way to it."""

    def is_done(self, epoch: int) -> bool:
        """Whether the output of an epoch is there already, by any replica."""

    def stage(self, df: DataFrame, epoch: int, *, write: bool) -> Staged:
        """Run the plan once; without `write` its rows are digested only."""

    def keep(self, staged: Staged, epoch: int) -> Staged:
        """Let what was staged outlast the batch that it came from."""

    def commit(self, staged: Staged, epoch: int) -> None:
        """Put the output out, unless it is there; to be repeated after an error."""

    def discard(self, staged: Staged, epoch: int) -> None:
        """Delete what was staged, unless it may be what counts."""


class DeadLetters(Protocol):
    """Where the records go that the source of a stream has set aside."""

    def send(self, epoch: int) -> None:
        """Put out those of an epoch, unless they are there; to be repeated after an error."""


class LedgerView(Protocol):
    """The ledger as one replica of a stream sees it."""

    def entry(self, epoch: int) -> LedgerEntry | None:
        """What was committed for an epoch, by any replica."""

    def write(self, epoch: int, *, rows: int, digest: str) -> None:
        """Record what this replica computed."""
