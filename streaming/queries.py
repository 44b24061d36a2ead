"""The query of a replica, and the one on newer state that is being made to replace it."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from resources.vault.manifest import Manifest
from streaming.checkpoint import give_identity
from streaming.following import Synced
from streaming.running import RunningQuery
from streaming.sampling import Sampler
from streaming.sinks.sending import Sender
from streaming.spec import ReplicaSpec

EPOCHS_WORTH_A_START = 3


@dataclass
class Queries:
    """At most two: `current` is the one to go on with, the fresh one takes its place when it is ready."""

    spec: ReplicaSpec
    spark: SparkSession
    sender: Sender
    current: RunningQuery | None = None
    _fresh: RunningQuery | None = None
    _owned: set[Path] = field(default_factory=set)

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
        if fresh is None:
            return False
        if held is not None and (fresh.epoch or 0) < (held.epoch or 0) + EPOCHS_WORTH_A_START:
            return False
        self._replace(fresh)
        return True

    def drop_fresh(self) -> None:
        """Nobody needs newer state than the current query has."""
        if self._fresh is not None:
            self._fresh.stop()
            self._fresh = None

    def renew(self, synced: Synced) -> bool:
        """Move to newer state, make before break; whether the current query was replaced just now."""
        held = self.current
        outdated = held is None or held.parent is None or held.parent.id != synced.manifest.id
        if outdated and self._fresh is None:  # one that is starting is finished first
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
        """See to failures and progress of both."""
        for query in self._all():
            query.tend(sampler)

    def remove_unused(self, *, keep: Path | None) -> None:
        """Remove checkpoints that were in use once and are not now."""
        using = {query.checkpoint for query in self._all()}
        if keep is not None:
            using.add(keep)
        for folder in self._owned - using:
            shutil.rmtree(folder, ignore_errors=True)
        self._owned = using

    def _replace(self, fresh: RunningQuery) -> None:
        if self.current is not None:
            self.current.stop()
        self.current, self._fresh = fresh, None

    def _started(self, checkpoint: Path, parent: Manifest | None) -> RunningQuery:
        give_identity(checkpoint)
        query = RunningQuery(self.spec, self.spark, self.sender, checkpoint, parent)
        query.start()
        return query

    def _all(self) -> list[RunningQuery]:
        return [query for query in (self.current, self._fresh) if query is not None]
