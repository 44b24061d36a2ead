"""What a source must provide: how much waits, what one epoch takes, and how to read it again.

Positions and inputs are plain JSON values, because they are stored in the epoch log. A source never
keeps its own position: the epoch log has it, for all replicas alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A slice of the input: where it ends, and what is needed to read it, now and in every replay."""

    end: Json
    input: Json
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Input that no epoch has: about how many rows, if that is known, and when the oldest of it arrived."""

    rows: int | None
    oldest_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The part of an epoch's input that one Spark task reads."""

    input: Json


class Readable(Protocol):
    """Input that was decided, to be read again."""

    def splits(self, taken: Json) -> Sequence[Split]:
        """Divide the input of an epoch between tasks."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read one split: the same rows each time, or raise."""


class Source(Readable, Protocol):
    """Where the input of a stream comes from."""

    def waiting_rows(self, position: Json | None, *, now: float, enough: int | None = None) -> int:
        """Count the rows that have arrived after `position`; it may stop at `enough`."""

    def take(self, position: Json | None, rows: int, *, now: float) -> Taken:
        """Slice about `rows` rows off the input after `position`."""

    def skip(
        self, position: Json | None, recent: Sequence[Json], *, before: float, now: float
    ) -> Taken | None:
        """An epoch without rows that skips what arrived after `position` and before a time; `None` if nothing did.

        `recent` are inputs of recent epochs.
        """

    def backlog(self, position: Json | None, recent: Sequence[Json], *, now: float) -> Backlog:
        """Look at all that has arrived after `position`; `recent` are inputs of recent epochs."""

    def arrived_at(self, taken: Json, end: Json) -> float | None:
        """When the oldest input of an epoch that ends at `end` arrived; `None` if it has no input."""
