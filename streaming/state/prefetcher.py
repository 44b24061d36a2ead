"""Prefetching: a thread that copies the input of each new epoch to the local disk, in order.

It follows the epoch log, which has the input of an epoch before any replica has processed it. The inbox
holds copies only, so an error here cannot change a result: at worst a task reads from the source.

While no snapshot arrives, as when the object store is away, nothing is pruned. So an inbox is bounded: one that is full
gets no further epoch until a snapshot covers some of it, and must not fill the disk of the other streams.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.records import Epoch
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.background import RetryingThread
from holdfast.streaming.inbox import BLOCK_BYTES, Inbox, fill_blocks
from holdfast.streaming.sources.base import Source
from holdfast.streaming.sources.factory import arrow_columns, open_source
from holdfast.streaming.sources.files import none_assigned
from holdfast.streaming.spec import ReplicaSpec

LOOK_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
EPOCHS_AT_ONCE = 100
KEEP_FREE_BYTES = 512 << 20
MOST_BYTES = 4 << 30
"""An inbox that has so much gets no further epoch; so it has at most this and one epoch."""

log = logging.getLogger(__name__)


def free_bytes(folder: Path) -> int:
    """The free bytes of the disk that a folder is on."""
    return shutil.disk_usage(folder).free


class Prefetcher(RetryingThread):
    """Writes every split of every epoch after `after_epoch` into the inbox.

    A stream of files needs Spark to read its columns: give `schema`, or start it when a session is up.
    """

    def __init__(
        self,
        spec: ReplicaSpec,
        store: ControlStore,
        inbox: Inbox,
        *,
        after_epoch: int,
        schema: pa.Schema | None = None,
        look_seconds: float = LOOK_SECONDS,
        epochs_at_once: int = EPOCHS_AT_ONCE,
        most_bytes: int = MOST_BYTES,
        free_bytes: Callable[[Path], int] = free_bytes,
    ) -> None:
        super().__init__(
            "prefetcher",
            self.fetch,
            look_seconds=look_seconds,
            longest_pause_seconds=LONGEST_PAUSE_SECONDS,
            failure="input not prefetched",
            logger=log,
        )
        self._spec = spec
        self._store = store
        self._inbox = inbox
        self._given_schema = schema
        self._epochs_at_once = epochs_at_once
        self._free_bytes = free_bytes
        self._most_bytes = most_bytes
        # No less than there is: it is counted only once it has reached the bound, and then after each pruning.
        self._held_bytes = most_bytes
        self._uncounted = threading.Event()
        self._uncounted.set()
        self._through = after_epoch
        self._pruned_through = after_epoch
        self._decided = -1
        self._due: int | None = None

    @property
    def caught_up(self) -> bool:
        """Whether the inbox has every epoch that was decided before the last `fetch` began."""
        return self._due is not None and self._through >= self._due

    def prune(self, through_epoch: int) -> None:
        """Remove the epochs that the state covers by now; those not fetched yet are skipped."""
        self._pruned_through = max(self._pruned_through, through_epoch)
        self._inbox.prune(through_epoch)
        self._uncounted.set()

    def fetch(self) -> None:
        """Fetch all epochs that are decided by now."""
        name = self._spec.stream.name
        last = self._store.epochs.last(name)
        newest = -1 if last is None else last.epoch
        self._due = newest if self._due is None else self._decided
        self._decided = newest
        while not self._ended.is_set():
            self._through = max(self._through, self._pruned_through)
            if self._through >= self._decided:
                return
            first = self._through + 1
            until = min(first + self._epochs_at_once - 1, self._decided)
            decided = self._store.epochs.between(name, first, until)
            if not decided:
                return
            for epoch in decided:
                self._fetch_epoch(epoch)

    def _fetch_epoch(self, epoch: Epoch) -> None:
        splits = self._source.splits(epoch.input)
        digest, number = digest_input(epoch), epoch.epoch
        has_all = self._inbox.has(number, len(splits), digest=digest)
        if number > self._pruned_through and not has_all:
            self._require_room()
            self._held_bytes += BLOCK_BYTES
            for index, split in enumerate(splits):
                rows = self._until_stopped(self._source.read(split))
                size = self._inbox.write(number, index, self._schema, rows, digest=digest)
                self._held_bytes += fill_blocks(size)
        if epoch.epoch <= self._pruned_through:
            self._inbox.prune(self._pruned_through)  # it was pruned while it was written
        self._through = epoch.epoch

    def _until_stopped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._check_stopped()
            yield batch

    def _require_room(self) -> None:
        if self._held_bytes >= self._most_bytes and self._uncounted.is_set():
            self._uncounted.clear()
            self._held_bytes = self._inbox.count_bytes()
        if self._held_bytes >= self._most_bytes:
            raise TransientError(
                f"the inbox has {self._held_bytes >> 20} MiB, and its bound is {self._most_bytes >> 20} MiB",
                hint="check that snapshots are shipped and synced: until then tasks read the input from its source",
            )
        free = self._free_bytes(self._spec.folder)
        if free < KEEP_FREE_BYTES:
            raise TransientError(
                f"only {free >> 20} MiB are free in {self._spec.folder}",
                hint="free disk space: until then tasks read the input from its source",
            )

    @cached_property
    def _schema(self) -> pa.Schema:
        return self._given_schema or arrow_columns(self._spec.stream.source)

    @cached_property
    def _source(self) -> Source:
        return open_source(self._spec, self._schema, none_assigned)
