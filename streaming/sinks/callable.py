"""The user's own sink: a function `write(df, epoch)` or `write(df, epoch, token)`."""

import inspect
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from holdfast.streaming.sinks.base import LedgerView
from holdfast.streaming.sinks.staging import Staged, run_epoch

DATA_AND_EPOCH = 2


@dataclass(slots=True)
class CallableSink:
    """Calls the user's function once for each epoch that the ledger does not have.

    A crash between the function's return and the ledger's row means a second call: that is why
    `precise` asks for a function that may be called twice. Right before the call the sink asks whether this
    replica may still write; a replica that is paused after that, and continues after a restore, still calls: a
    function with a third parameter gets the token of the lease, which only grows, and can refuse such a call.
    The rows are kept in Spark's cache while
    the function runs, so the plan is executed once however many actions the function takes on them.
    An epoch that has to wait is written to the `outbox` folder and read back.
    """

    write: Callable[..., None]
    ledger: LedgerView
    outbox: Path
    _called_through: int = -1

    def prepare(self, schema: StructType | None) -> None:
        """Do nothing: the function is loaded."""

    def is_done(self, epoch: int, *, read: str | None = None) -> bool:
        """Whether the ledger has the epoch: there is no other record of calls."""
        return self.ledger.entry(epoch) is not None

    def stage(self, df: DataFrame, epoch: int, *, write: bool) -> Staged:
        """Run the plan, and cache its rows if they are to be written."""
        if not write:
            return run_epoch(df, None)
        cached = df.persist()
        try:
            return replace(run_epoch(cached, None), frame=cached)
        except BaseException:
            cached.unpersist()
            raise

    def keep(self, staged: Staged, epoch: int) -> Staged:
        """Write the rows to the outbox: Spark's cache does not outlast the batch."""
        frame = _frame(staged)
        folder = self.outbox / f"{epoch:012d}-{uuid4().hex[:8]}"
        try:
            frame.write.parquet(str(folder))
        finally:
            frame.unpersist()
        return replace(staged, folder=str(folder))

    def commit(self, staged: Staged, epoch: int) -> None:
        """Call the user's function, unless it has been called for this epoch."""
        try:
            if epoch > self._called_through and not self.is_done(epoch):
                rows = _rows(staged)
                self.ledger.require_current()
                if takes_token(self.write):
                    self.write(rows, epoch, self.ledger.token)
                else:
                    self.write(rows, epoch)
                self._called_through = epoch
        finally:
            _frame(staged).unpersist()
        self._delete(staged)

    def discard(self, staged: Staged, epoch: int) -> None:
        """Delete the rows: only this replica reads them."""
        if staged.frame is not None:
            staged.frame.unpersist()
        self._delete(staged)

    def _delete(self, staged: Staged) -> None:
        if staged.folder:
            shutil.rmtree(staged.folder, ignore_errors=True)


def takes_token(write: Callable[..., None]) -> bool:
    """Whether a function requires a third argument."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        parameter
        for parameter in inspect.signature(write).parameters.values()
        if parameter.kind in positional and parameter.default is inspect.Parameter.empty
    ]
    return len(required) > DATA_AND_EPOCH


def _frame(staged: Staged) -> DataFrame:
    assert staged.frame is not None, "it was staged to be written"  # noqa: S101
    return staged.frame


def _rows(staged: Staged) -> DataFrame:
    frame = _frame(staged)
    if not staged.folder:
        return frame
    rows: DataFrame = frame.sparkSession.read.schema(frame.schema).parquet(staged.folder)
    return rows
