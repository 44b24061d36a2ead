"""The sender: what foreachBatch calls, and what decides whether an epoch goes out or is held back.

A replica that only processes stages its epochs and holds them back. When its sender is opened it commits
them, oldest first, and sends from then on. Both happen under one lock, so a batch in flight is either
among those held back or comes after them: epochs go out in order, and none before its predecessor is
in the ledger.
"""

import threading
from dataclasses import replace

from pyspark.sql import DataFrame

from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.streaming.sinks.base import DeadLetters, LedgerView, Sink
from holdfast.streaming.sinks.staging import Staged


class Sender:
    """Sends the epochs of one replica while open, holds them back while shut."""

    def __init__(
        self,
        sink: Sink,
        ledger: LedgerView,
        *,
        sending: bool,
        dead_letters: DeadLetters | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._sink = sink
        self._dead_letters = dead_letters
        self._ledger = ledger
        self._is_open = sending
        self._held_back: dict[int, Staged] = {}
        self._lock = threading.Lock()
        self._slowest_commit: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether epochs are committed as they come."""
        return self._is_open

    @property
    def held_back(self) -> tuple[int, ...]:
        return tuple(sorted(self._held_back.copy()))

    def __call__(self, df: DataFrame, epoch: int, *, read: str | None = None) -> None:
        """Process an epoch, and commit it or hold it back; an epoch that is done is only digested.

        `read` is the digest of its input.
        """
        with self._lock:
            self._sink.prepare(df.schema)
            write = epoch not in self._held_back and not self._sink.is_done(epoch, read=read)
        # The plan runs in any case: Spark's state has to include the epoch.
        staged = replace(self._sink.stage(df, epoch, write=write), read=read)
        with self._lock:
            self._finish_batch(staged, epoch, written=write)

    def open(self) -> None:
        """Commit what was held back, oldest first, and send from now on; after an error, call it again."""
        with self._lock:
            self._sink.prepare(None)
            for epoch in self.held_back:
                staged = self._held_back[epoch]
                if self._sink.is_done(epoch, read=staged.read):
                    self._drop(epoch)
                else:
                    self._send(staged, epoch)
                    del self._held_back[epoch]
            self._is_open = True

    def shut(self) -> None:
        """Hold epochs back from now on."""
        with self._lock:
            self._is_open = False

    def take_slowest_commit(self) -> float | None:
        """How long the slowest commit since the last call took; `None` if there was none.

        It does not wait for the lock, which is held during a commit.
        """
        seconds, self._slowest_commit = self._slowest_commit, None
        return seconds

    def prune(self) -> None:
        """Drop held-back epochs that another replica has committed, and compare its digests."""
        for epoch in self.held_back:
            with self._lock:  # for one epoch only: `open` must not wait for all of them
                if epoch not in self._held_back:
                    continue
                read = self._held_back[epoch].read
                if self._ledger.entry(epoch) is None or not self._sink.is_done(epoch, read=read):
                    return
                self._drop(epoch)

    def _finish_batch(self, staged: Staged, epoch: int, *, written: bool) -> None:
        if epoch in self._held_back:  # the batch is a repeated one
            self._sink.discard(staged, epoch)
        elif not written:
            self._enter(staged, epoch)
        elif self._is_open:
            self._send(staged, epoch)  # after an error Spark repeats the batch and stages again
        else:
            self._held_back[epoch] = self._sink.keep(staged, epoch)

    def _send(self, staged: Staged, epoch: int) -> None:
        self._ledger.require_decided(epoch, staged.read)
        if self._dead_letters is not None:
            self._dead_letters.send(epoch)
        began = self._clock.monotonic()
        self._sink.commit(staged, epoch)
        seconds = self._clock.monotonic() - began
        self._slowest_commit = max(seconds, self._slowest_commit or 0.0)
        self._enter(staged, epoch)

    def _enter(self, staged: Staged, epoch: int) -> None:
        self._ledger.write(epoch, rows=staged.rows, digest=staged.digest, read=staged.read)

    def _drop(self, epoch: int) -> None:
        staged = self._held_back[epoch]
        self._enter(staged, epoch)
        del self._held_back[epoch]
        self._sink.discard(staged, epoch)
