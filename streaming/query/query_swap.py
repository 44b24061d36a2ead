"""The query of a replica, and the one on newer state that is being made to replace it."""

import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.empty_state import make_empty_checkpoint
from holdfast.streaming.query.query import RunningQuery
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.spark.checkpoint import give_identity, read_empty_start
from holdfast.streaming.spark.session import require_java
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.follower import LocalSnapshot

EPOCHS_WORTH_A_START = 3


@dataclass
class QuerySwap:
    """At most two queries: `current`, and a replacement that takes its place once it is ready."""

    spec: ReplicaSpec
    spark: SparkSession
    sender: Sender
    current: RunningQuery | None = None
    _replacement: RunningQuery | None = None
    _leaving: dict[threading.Thread, Path] = field(default_factory=dict)
    _used: set[Path] = field(default_factory=set)

    @property
    def epoch(self) -> int | None:
        """The last epoch that the current query has finished."""
        return None if self.current is None else self.current.epoch

    def start(self, checkpoint: Path, parent: Manifest | None) -> None:
        """Start the current query on a checkpoint of its own; on one that is marked, with empty state after its epoch."""
        after = read_empty_start(checkpoint)
        if after is not None:
            make_empty_checkpoint(self.spark, self.spec, checkpoint, after_epoch=after)
        self.current = self._start(checkpoint, parent)

    def adopt_replacement(self) -> bool:
        """Switch to the query that is starting, if that saves more epochs than its start costs."""
        held, replacement = self.current, self._replacement
        if replacement is None or replacement.is_retrying:
            return False
        if held is not None and (replacement.epoch or 0) < (held.epoch or 0) + EPOCHS_WORTH_A_START:
            return False
        self._replace(replacement)
        return True

    def drop_replacement(self) -> None:
        """Stop the replacement, if there is one, and keep the current query."""
        if self._replacement is not None:
            self._stop_later(self._replacement)
            self._replacement = None

    def replace_with(self, snapshot: LocalSnapshot) -> bool:
        """Move to newer state, make before break; `True` if the current query was replaced by this call."""
        replacement = self._replacement
        if (
            replacement is not None
            and replacement.is_retrying
            and not _is_on(replacement, snapshot)
        ):
            self.drop_replacement()
        # A replacement that is already starting comes first, even if there is a newer snapshot by now.
        if self._replacement is None and not _is_on(self.current, snapshot):
            self._replacement = self._start(snapshot.checkpoint, snapshot.manifest)
        if self._replacement is None or not self._replacement.ready:
            return False
        self._replace(self._replacement)
        return True

    def stop(self) -> None:
        """Stop both queries at once."""
        for query in self._all():
            query.stop()
        self.current = self._replacement = None

    def poll(self, sampler: Sampler) -> None:
        """Restart or sample both queries; raises if their JVM has ended or a query is given up."""
        require_java(self.spark)
        for query in self._all():
            query.poll(sampler)

    def remove_unused(self, *, shown: set[Path], keep: Iterable[Path]) -> None:
        """Remove checkpoints that were in use or shown before, and are neither used nor in `keep` now."""
        self._leaving = {
            thread: used for thread, used in self._leaving.items() if thread.is_alive()
        }
        using = {query.checkpoint for query in self._all()} | set(self._leaving.values()) | {*keep}
        for folder in (self._used | shown) - using:
            shutil.rmtree(folder, ignore_errors=True)
        self._used = using

    def _replace(self, replacement: RunningQuery) -> None:
        if self.current is not None:
            self._stop_later(self.current)
        self.current, self._replacement = replacement, None

    def _stop_later(self, query: RunningQuery) -> None:
        """Stop a query in the background: Spark may take seconds, which a takeover does not have."""
        thread = threading.Thread(target=query.stop, name="stop-query", daemon=True)
        self._leaving[thread] = query.checkpoint
        thread.start()

    def _start(self, checkpoint: Path, parent: Manifest | None) -> RunningQuery:
        give_identity(checkpoint)
        query = RunningQuery(self.spec, self.spark, self.sender, checkpoint, parent)
        query.start()
        return query

    def _all(self) -> list[RunningQuery]:
        return [query for query in (self.current, self._replacement) if query is not None]


def _is_on(query: RunningQuery | None, snapshot: LocalSnapshot) -> bool:
    return (
        query is not None and query.parent is not None and query.parent.id == snapshot.manifest.id
    )
