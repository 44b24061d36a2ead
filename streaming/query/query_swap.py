"""The query of a replica, and the one on newer state that is being made to replace it."""

import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from resources.vault.manifest import Manifest
from streaming.query.query import RunningQuery
from streaming.sampling import Sampler
from streaming.sinks.sender import Sender
from streaming.spark.checkpoint import give_identity
from streaming.spark.session import demand_java
from streaming.spec import ReplicaSpec
from streaming.state.follower import Synced

EPOCHS_WORTH_A_START = 3


@dataclass
class Queries:
    """At most two: `current` is the one to go on with, the fresh one takes its place when it is ready."""

    spec: ReplicaSpec
    spark: SparkSession
    sender: Sender
    current: RunningQuery | None = None
    _fresh: RunningQuery | None = None
    _leaving: dict[threading.Thread, Path] = field(default_factory=dict)
    _used: set[Path] = field(default_factory=set)

    @property
    def epoch(self) -> int | None:
        """How far the current one is."""
        return None if self.current is None else self.current.epoch

    def start(self, checkpoint: Path, parent: Manifest | None) -> None:
        """Start the current one on a checkpoint of its own."""
        self.current = self._started(checkpoint, parent)

    def adopt_fresh(self) -> bool:
        """Go on with the query that is starting, if that saves more epochs than its start costs."""
        held, fresh = self.current, self._fresh
        if fresh is None or fresh.trying_again:
            return False
        if held is not None and (fresh.epoch or 0) < (held.epoch or 0) + EPOCHS_WORTH_A_START:
            return False
        self._replace(fresh)
        return True

    def drop_fresh(self) -> None:
        """Nobody needs newer state than the current query has."""
        if self._fresh is not None:
            self._let_go(self._fresh)
            self._fresh = None

    def renew(self, synced: Synced) -> bool:
        """Move to newer state, make before break; whether the current query was replaced just now."""
        if self._fresh is not None and self._fresh.trying_again and not _is_on(self._fresh, synced):
            self.drop_fresh()
        if not _is_on(self.current, synced) and self._fresh is None:  # a starting one is finished
            self._fresh = self._started(synced.checkpoint, synced.manifest)
        if self._fresh is None or not self._fresh.ready:
            return False
        self._replace(self._fresh)
        return True

    def stop(self) -> None:
        """Stop both where they are."""
        for query in self._all():
            query.stop()
        self.current = self._fresh = None

    def tend(self, sampler: Sampler) -> None:
        """See to failures and progress of both, and to the JVM that they run in."""
        demand_java(self.spark)
        for query in self._all():
            query.tend(sampler)

    def remove_unused(self, *, shown: set[Path], keep: Iterable[Path]) -> None:
        """Remove checkpoints that were in use or shown once, and are not to be kept now."""
        self._leaving = {
            thread: used for thread, used in self._leaving.items() if thread.is_alive()
        }
        using = {query.checkpoint for query in self._all()} | set(self._leaving.values()) | {*keep}
        for folder in (self._used | shown) - using:
            shutil.rmtree(folder, ignore_errors=True)
        self._used = using

    def _replace(self, fresh: RunningQuery) -> None:
        if self.current is not None:
            self._let_go(self.current)
        self.current, self._fresh = fresh, None

    def _let_go(self, query: RunningQuery) -> None:
        """Stop it without waiting: that can take Spark seconds, and a takeover has none."""
        thread = threading.Thread(target=query.stop, name="let-go", daemon=True)
        self._leaving[thread] = query.checkpoint
        thread.start()

    def _started(self, checkpoint: Path, parent: Manifest | None) -> RunningQuery:
        give_identity(checkpoint)
        query = RunningQuery(self.spec, self.spark, self.sender, checkpoint, parent)
        query.start()
        return query

    def _all(self) -> list[RunningQuery]:
        return [query for query in (self.current, self._fresh) if query is not None]


def _is_on(query: RunningQuery | None, synced: Synced) -> bool:
    return query is not None and query.parent is not None and query.parent.id == synced.manifest.id
