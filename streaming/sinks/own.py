"""The user's own sink: a function `write(df, epoch)`."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from streaming.sinks.ledgering import Ledgering
from streaming.sinks.staging import run_epoch


@dataclass(frozen=True, slots=True)
class CallableSink:
    """Calls the user's function once for each epoch that the ledger does not have.

    A crash between the function's return and the ledger's row means a second call: that is why
    `precise` asks for a function that may be called twice. The rows are kept while the function
    runs, so the plan is executed once however many actions the function takes on them.
    """

    write: Callable[[DataFrame, int], None]
    ledgering: Ledgering

    def __call__(self, df: DataFrame, epoch: int) -> None:
        """Hand one epoch to the user's function and enter it in the ledger."""
        kept = df.persist()
        try:
            digested = run_epoch(kept, None)
            if self.ledgering.entry(epoch) is None:
                self.write(kept, epoch)
            self.ledgering.write(epoch, rows=digested.rows, digest=digested.digest)
        finally:
            kept.unpersist()
