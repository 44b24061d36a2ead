"""Queries without Spark: they stop when they are told to, as slowly as a test wants."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from resources.vault.manifest import Manifest
from streaming.query.query import RunningQuery
from streaming.query.query_swap import Queries


@dataclass
class SlowQuery:
    """A query whose end a test decides."""

    checkpoint: Path
    parent: Manifest | None
    epoch: int = 0
    ready: bool = False
    trying_again: bool = False
    may_end: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Take one's time."""
        self.may_end.wait()
        self.ended.set()


class SlowQueries(Queries):
    """Starts queries of which nothing is left but their folders."""

    def _started(self, checkpoint: Path, parent: Manifest | None) -> RunningQuery:
        return SlowQuery(checkpoint, parent)  # type: ignore[return-value]
