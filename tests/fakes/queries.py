"""QuerySwap without Spark: they stop when they are asked to, as slowly as a test wants."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.query import RunningQuery
from holdfast.streaming.query.query_swap import QuerySwap
from holdfast.streaming.spec import ReplicaSpec


@dataclass
class SlowQuery:
    """A query whose end a test decides."""

    checkpoint: Path
    parent: Manifest | None
    epoch: int = 0
    ready: bool = False
    wired: bool = False
    is_retrying: bool = False
    may_end: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Take one's time."""
        self.may_end.wait()
        self.ended.set()


class SlowQuerySwap(QuerySwap):
    """Starts queries of which nothing is left but their folders."""

    def _start(self, checkpoint: Path, parent: Manifest | None) -> RunningQuery:
        return SlowQuery(checkpoint, parent)  # type: ignore[return-value]


@dataclass
class EasyQuery(SlowQuery):
    """A query that ends at once, and is as far as a test says."""

    spec: ReplicaSpec | None = None

    def stop(self) -> None:
        """End."""
        self.ended.set()

    def drain(self, give_up: Callable[[], bool]) -> None:
        """Nothing has begun."""


class EasyQuerySwap(QuerySwap):
    """Starts queries without Spark, which never fail."""

    def poll(self, sampler: Sampler) -> None:
        """Nothing to see to."""

    def _start(self, checkpoint: Path, parent: Manifest | None) -> RunningQuery:
        return EasyQuery(checkpoint, parent, spec=self.spec)  # type: ignore[return-value]
