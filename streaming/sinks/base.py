"""What a sink must do so that a replica can process without sending.

An epoch is staged (the plan runs, the rows are digested and, to be written, stored) and later
committed or discarded. The `Sender` calls everything that changes the outside world under its lock,
in the order of epochs.
"""

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from holdfast.resources.control_store.records import LedgerEntry
from holdfast.streaming.sinks.staging import Staged


class Sink(Protocol):
    """Where the output of epochs goes, each of them once."""

    def prepare(self, schema: StructType | None) -> None:
        """Open the output if it exists, create it if a schema is given, and warm up the connection."""

    def is_done(self, epoch: int, *, read: str | None = None) -> bool:
        """Whether any replica has written the output of an epoch; raise if that was of other input than `read`."""

    def stage(self, df: DataFrame, epoch: int, *, write: bool) -> Staged:
        """Run the plan once; without `write` its rows are digested only."""

    def keep(self, staged: Staged, epoch: int) -> Staged:
        """Make staged output outlast the batch that it came from."""

    def commit(self, staged: Staged, epoch: int) -> None:
        """Write the output, unless it is there; may be repeated after an error."""

    def discard(self, staged: Staged, epoch: int) -> None:
        """Delete staged output, unless it may have been committed."""


class DeadLetters(Protocol):
    """Where the records go that the source of a stream has rejected."""

    def send(self, epoch: int) -> None:
        """Write the rejected records of an epoch, unless they are there; may be repeated after an error."""


class LedgerView(Protocol):
    """The ledger as one replica of a stream sees it."""

    @property
    def token(self) -> int:
        """The token of the lease that this replica writes under."""

    def require_current(self) -> None:
        """Raise if a restore has ended this replica's history, or another replica has a newer lease."""

    def entry(self, epoch: int) -> LedgerEntry | None:
        """What was committed for an epoch, by any replica."""

    def write(self, epoch: int, *, rows: int, digest: str, read: str | None = None) -> None:
        """Record what this replica computed; raise if `read`, the digest of its input, is not what was decided."""

    def require_decided(self, epoch: int, read: str | None) -> None:
        """Raise if the epoch log has other input than this replica has read."""
