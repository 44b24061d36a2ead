"""The send switch: what foreachBatch calls, and what decides whether an epoch goes out or waits.

A replica that only processes stages its epochs and keeps them. When it is opened it commits what it
kept, oldest first, and goes on sending. Both come under one lock, so a batch in flight is either
among those kept or comes after them: epochs go out in order, and none before the one before it is
in the ledger.
"""

import threading

from pyspark.sql import DataFrame

from streaming.sinks.base import DeadLetters, Entries, Sink
from streaming.sinks.staging import Staged


class Sender:
    """Sends the epochs of one replica while open, keeps them while shut."""

    def __init__(
        self,
        sink: Sink,
        ledgering: Entries,
        *,
        sending: bool,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self._sink = sink
        self._dead_letters = dead_letters
        self._ledgering = ledgering
        self._is_open = sending
        self._kept: dict[int, Staged] = {}
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether epochs are committed as they come."""
        return self._is_open

    @property
    def kept(self) -> tuple[int, ...]:
        """The epochs that are held back."""
        return tuple(sorted(self._kept.copy()))

    def __call__(self, df: DataFrame, epoch: int) -> None:
        """Process one epoch, and commit or keep it; one that is done is only digested."""
        with self._lock:
            self._sink.prepare(df.schema)
            write = epoch not in self._kept and not self._sink.is_done(epoch)
        # The plan runs in any case: Spark's state has to go on.
        staged = self._sink.stage(df, epoch, write=write)
        with self._lock:
            self._settle(staged, epoch, written=write)

    def open(self) -> None:
        """Commit what was kept, oldest first, and send from now on; after an error, call it again."""
        with self._lock:
            self._sink.prepare(None)
            for epoch in self.kept:
                if self._sink.is_done(epoch):
                    self._give_up(epoch)
                else:
                    self._send(self._kept[epoch], epoch)
                    del self._kept[epoch]
            self._is_open = True

    def shut(self) -> None:
        """Keep epochs from now on."""
        with self._lock:
            self._is_open = False

    def prune(self) -> None:
        """Let go of kept epochs that another replica has committed, and compare its digests."""
        for epoch in self.kept:
            with self._lock:  # for one epoch only: `open` must not wait for all of them
                if epoch not in self._kept:
                    continue
                if self._ledgering.entry(epoch) is None or not self._sink.is_done(epoch):
                    return
                self._give_up(epoch)

    def _settle(self, staged: Staged, epoch: int, *, written: bool) -> None:
        if epoch in self._kept:  # the batch is a repeated one
            self._sink.discard(staged, epoch)
        elif not written:
            self._ledgering.write(epoch, rows=staged.rows, digest=staged.digest)
        elif self._is_open:
            self._send(staged, epoch)  # after an error Spark repeats the batch, which stages anew
        else:
            self._kept[epoch] = self._sink.keep(staged, epoch)

    def _send(self, staged: Staged, epoch: int) -> None:
        if self._dead_letters is not None:
            self._dead_letters.send(epoch)
        self._sink.commit(staged, epoch)
        self._ledgering.write(epoch, rows=staged.rows, digest=staged.digest)

    def _give_up(self, epoch: int) -> None:
        staged = self._kept[epoch]
        self._ledgering.write(epoch, rows=staged.rows, digest=staged.digest)
        del self._kept[epoch]
        self._sink.discard(staged, epoch)
