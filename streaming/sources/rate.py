"""A synthetic input: each row is computed from its number, so it can always be read again.

A profile is a cumulative curve that is linear between knots, so that counting the rows by a given time
and dating a row by its number are the same interpolation, once in each direction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.configs.declarations.sources import (
    ConstantProfile,
    DiurnalProfile,
    Profile,
    RateSource as RateDeclaration,
    SpikesProfile,
    StepProfile,
)
from holdfast.streaming.sources.base import Backlog, Json, Split, Taken

DIURNAL_KNOTS = 1440
Floats: TypeAlias = NDArray[np.float64]
ROWS_PER_ARROW_BATCH = 100_000
COLUMNS = "offset bigint, event_time timestamp, key int, value double"
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("key", pa.int32()),
        ("value", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Curve:
    """A cumulative curve: `rows[k]` rows have come after `seconds[k]`.

    After the last knot it repeats if `periodic`, and continues with the last slope otherwise.
    """

    seconds: Floats
    rows: Floats
    periodic: bool = False

    def rows_by(self, elapsed_seconds: float) -> int:
        """Count the rows produced in the first `elapsed_seconds`."""
        return int(self._follow(np.array([max(elapsed_seconds, 0.0)]), self.seconds, self.rows)[0])

    def seconds_of(self, offsets: NDArray[np.int64]) -> Floats:
        """Date rows by their numbers, in seconds after the start."""
        return self._follow(offsets.astype(np.float64), self.rows, self.seconds)

    def _follow(self, at: Floats, across: Floats, up: Floats) -> Floats:
        if self.periodic:
            turns = np.floor(at / across[-1])
            within: Floats = np.interp(at - turns * across[-1], across, up)
            whole: Floats = turns * up[-1]
            return whole + within
        slope = (up[-1] - up[-2]) / (across[-1] - across[-2])
        beyond: Floats = np.maximum(at - across[-1], 0.0) * slope
        return beyond + np.interp(at, across, up)


def curve(profile: Profile) -> Curve:
    """Turn a declared profile into its curve."""
    match profile:
        case ConstantProfile():
            return _pieces([(1.0, profile.rows_per_second)])
        case StepProfile():
            return _pieces(
                [(profile.at, profile.rows_per_second), (1.0, profile.then_rows_per_second)]
            )
        case SpikesProfile():
            quiet = profile.period - profile.length
            return _pieces(
                [
                    (profile.length, profile.spike_rows_per_second),
                    (quiet, profile.rows_per_second),
                ],
                periodic=True,
            )
        case DiurnalProfile():
            low, high = profile.low_rows_per_second, profile.high_rows_per_second
            middle = (np.arange(DIURNAL_KNOTS) + 0.5) / DIURNAL_KNOTS
            rates = low + (high - low) * (1.0 - np.cos(2.0 * np.pi * middle)) / 2.0
            step = profile.period / DIURNAL_KNOTS
            return _pieces([(step, float(rate)) for rate in rates], periodic=True)


def _pieces(pieces: list[tuple[float, float]], *, periodic: bool = False) -> Curve:
    lengths = np.array([length for length, _ in pieces])
    rates = np.array([rate for _, rate in pieces])
    seconds = np.concatenate([[0.0], np.cumsum(lengths)])
    rows = np.concatenate([[0.0], np.cumsum(lengths * rates)])
    return Curve(seconds, rows, periodic)


@dataclass(frozen=True)
class RateSource:
    """Rows at a declared rate; position = rows so far and the time of the first one."""

    declared: RateDeclaration

    @cached_property
    def curve(self) -> Curve:
        """The declared profile as a curve."""
        return curve(self.declared.profile)

    def waiting_rows(self, position: Json | None, *, now: float, enough: int | None = None) -> int:
        """Count what the profile has produced by now, less what was taken."""
        if position is None:
            return 0
        produced = self.curve.rows_by(now - position["origin"])
        if self.declared.limit_rows is not None:
            produced = min(produced, self.declared.limit_rows)
        return max(produced - int(position["rows"]), 0)

    def take(self, position: Json | None, rows: int, *, now: float) -> Taken:
        """Take the next rows; the very first slice fixes the time of row 0."""
        origin = now if position is None else position["origin"]
        first = 0 if position is None else int(position["rows"])
        start = self.declared.start.timestamp() if self.declared.start else origin
        return Taken(
            end={"origin": origin, "rows": first + rows},
            input={"first": first, "rows": rows, "start": start},
            rows=rows,
        )

    def skip(
        self, position: Json | None, recent: Sequence[Json], *, before: float, now: float
    ) -> Taken | None:
        """Go on with the first row that the profile produces at that time or later."""
        rows = self.waiting_rows(position, now=min(before, now))
        if position is None or rows == 0:
            return None
        late = self.take({**position, "rows": position["rows"] + rows}, 0, now=now)
        return Taken(end=late.end, input={**late.input, "skipped_rows": rows}, rows=0)

    def backlog(self, position: Json | None, recent: Sequence[Json], *, now: float) -> Backlog:
        """What the profile has produced by now, exactly; the first of it is dated by its number."""
        rows = self.waiting_rows(position, now=now)
        if position is None or rows == 0:
            return Backlog(rows=rows, oldest_at=None)
        return Backlog(rows=rows, oldest_at=self._produced_at(position["origin"], position["rows"]))

    def arrived_at(self, taken: Json, end: Json) -> float | None:
        """When the profile produced the first row of the epoch."""
        return self._produced_at(end["origin"], taken["first"]) if taken["rows"] else None

    def _produced_at(self, origin: float, row: int) -> float:
        return origin + float(self.curve.seconds_of(np.array([row]))[0])

    def splits(self, taken: Json) -> Sequence[Split]:
        """Cut the numbers into equal ranges."""
        edges = np.linspace(0, taken["rows"], self.declared.partitions + 1).astype(int).tolist()
        return [
            Split(input={**taken, "first": taken["first"] + low, "rows": high - low})
            for low, high in pairwise(edges)
            if high > low
        ]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Compute the rows of a range of numbers."""
        first, rows = split.input["first"], split.input["rows"]
        for low in range(first, first + rows, ROWS_PER_ARROW_BATCH):
            high = min(low + ROWS_PER_ARROW_BATCH, first + rows)
            yield self._batch(np.arange(low, high, dtype=np.int64), split.input["start"])

    def _batch(self, offsets: NDArray[np.int64], start: float) -> pa.RecordBatch:
        random = scatter(offsets, self.declared.seed)
        micros = np.int64(start * 1e6) + (self.curve.seconds_of(offsets) * 1e6).astype(np.int64)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(offsets),
                pa.array(micros, pa.timestamp("us", tz="UTC")),
                pa.array((random % np.uint64(self.declared.keys)).astype(np.int32)),
                pa.array((random >> np.uint64(11)).astype(np.float64) * 2.0**-53),
            ],
            schema=SCHEMA,
        )


def scatter(offsets: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Hash row numbers to 64 random-looking bits each (the splitmix64 finaliser)."""
    mixed = offsets.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
