"""Loads over time: recorded, or generated from a shape and a seed.

A week of a thousand streams does not fit in memory, so a trace is read in blocks of ticks. Each kind of
randomness has its own generator, so that the size of a block does not change what is drawn.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

import numpy as np

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.steps import FloatArray
from holdfast.ft_policies.simulator.state_size import SlidingWindow

DAY_SECONDS = 86_400.0
BLOCK_TICKS = 64
Factors: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some ticks of all streams; both arrays are (ticks, streams)."""

    rows_per_second: FloatArray
    state_bytes: FloatArray


class Trace(Protocol):
    """A load over time."""

    @property
    def streams(self) -> int: ...

    def blocks(self, ticks: int, tick_seconds: float) -> Iterator[Block]: ...


class Shape(StrEnum):
    """What a generated load looks like."""

    STEP = "step"
    SPIKES = "spikes"
    DIURNAL = "diurnal"
    ERRATIC = "erratic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A load of a shape, around a usual rate; in a fleet each stream has its own usual rate."""

    shape: Shape
    rows_per_second: float
    state: SlidingWindow
    streams: int = 1
    seed: int = 0

    def blocks(self, ticks: int, tick_seconds: float) -> Iterator[Block]:
        """The load at each tick, in order."""
        chance = np.random.default_rng(self.seed).spawn(4)
        usual = np.full(self.streams, self.rows_per_second)
        if self.streams > 1:
            usual *= chance[0].lognormal(-0.5 * _FLEET_SPREAD**2, _FLEET_SPREAD, self.streams)
        factors = _SHAPES[self.shape](self.streams, tick_seconds, ticks * tick_seconds, chance[1:])
        state = self.state.fill(tick_seconds)
        for times in _times(ticks, tick_seconds):
            rates = factors(times) * usual
            yield Block(rows_per_second=rates, state_bytes=state.after(rates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A measured load; all streams have it, and its last value continues after its end."""

    seconds: FloatArray
    rows_per_second: FloatArray
    state_bytes: FloatArray
    streams: int = 1

    def __post_init__(self) -> None:
        """Fail with a `PermanentError` if it is not a load over time."""
        sizes = {len(self.seconds), len(self.rows_per_second), len(self.state_bytes)}
        if len(sizes) != 1 or not len(self.seconds):
            raise PermanentError(
                "a trace needs as many seconds as rates and states, and at least one",
                hint="write the columns seconds,rows_per_second,state_bytes",
            )
        if not all(
            np.isfinite(column).all() for column in (self.rows_per_second, self.state_bytes)
        ):
            raise PermanentError("rates and states of a trace must be numbers")
        if not np.all(np.diff(self.seconds) > 0):
            raise PermanentError("the seconds of a trace must increase from line to line")
        if min(np.min(self.rows_per_second), np.min(self.state_bytes)) < 0:
            raise PermanentError("rates and states of a trace must not be negative")

    @property
    def span_seconds(self) -> float:
        """From the first line to the last."""
        return float(self.seconds[-1] - self.seconds[0])

    def blocks(self, ticks: int, tick_seconds: float) -> Iterator[Block]:
        """The load at each tick: that of the last line before it."""
        for times in _times(ticks, tick_seconds):
            at = np.searchsorted(self.seconds - self.seconds[0], times, side="right") - 1
            yield Block(
                rows_per_second=np.repeat(self.rows_per_second[at, None], self.streams, axis=1),
                state_bytes=np.repeat(self.state_bytes[at, None], self.streams, axis=1),
            )


def _times(ticks: int, tick_seconds: float) -> Iterator[FloatArray]:
    for first in range(0, ticks, BLOCK_TICKS):
        yield np.arange(first, min(first + BLOCK_TICKS, ticks), dtype=np.float64) * tick_seconds


_FLEET_SPREAD = 0.8
_STEP_HEIGHT = 4.5
_SPIKE_EVERY_SECONDS, _SPIKE_FADES_SECONDS, _SPIKE_HEIGHT = 1800.0, 120.0, 6.0
_DAY_SWING, _DAY_NOISE = 0.8, 0.03
_ERRATIC_HOLD_SECONDS, _ERRATIC_LEAST, _ERRATIC_MOST = 20.0, 1e-4, 10.0


def _step(
    streams: int, tick_seconds: float, span_seconds: float, chance: list[np.random.Generator]
) -> Factors:
    """One usual load, and a higher one in the second half."""

    def factors(times: FloatArray) -> FloatArray:
        high = np.where(times < span_seconds / 2, 1.0, _STEP_HEIGHT)
        return np.repeat(high[:, None], streams, axis=1)

    return factors


def _spikes(
    streams: int, tick_seconds: float, span_seconds: float, chance: list[np.random.Generator]
) -> Factors:
    """Sudden rises at random times that fade away."""
    extra = np.zeros(streams)
    fade = np.exp(-tick_seconds / _SPIKE_FADES_SECONDS)
    share = tick_seconds / _SPIKE_EVERY_SECONDS

    def factors(times: FloatArray) -> FloatArray:
        size = (len(times), streams)
        begun = (chance[0].random(size) < share) * chance[1].uniform(0, _SPIKE_HEIGHT, size)
        for row in begun:
            np.multiply(extra, fade, out=extra)
            np.maximum(extra, row, out=extra)
            np.add(extra, 1.0, out=row)
        return begun

    return factors


def _diurnal(
    streams: int, tick_seconds: float, span_seconds: float, chance: list[np.random.Generator]
) -> Factors:
    """Days and nights, each stream with its own noon, and some noise."""
    noon = 2 * np.pi * chance[0].random(streams)
    sine, cosine = _DAY_SWING * np.sin(noon), _DAY_SWING * np.cos(noon)

    def factors(times: FloatArray) -> FloatArray:
        hour = 2 * np.pi * times[:, None] / DAY_SECONDS
        day = 1.0 + np.sin(hour) * cosine + np.cos(hour) * sine
        return day * chance[1].uniform(1.0 - _DAY_NOISE, 1.0 + _DAY_NOISE, day.shape)

    return factors


def _erratic(
    streams: int, tick_seconds: float, span_seconds: float, chance: list[np.random.Generator]
) -> Factors:
    """Jumps over five orders of magnitude, a few seconds apart."""
    level = np.ones(streams)
    share = 1.0 - np.exp(-tick_seconds / _ERRATIC_HOLD_SECONDS)
    least, most = np.log(_ERRATIC_LEAST), np.log(_ERRATIC_MOST)

    def factors(times: FloatArray) -> FloatArray:
        size = (len(times), streams)
        jumps = chance[0].random(size) < share
        levels = np.exp(chance[1].uniform(least, most, size))
        for row, jump in zip(levels, jumps, strict=True):
            np.copyto(level, row, where=jump)
            row[:] = level
        return levels

    return factors


_SHAPES = {
    Shape.STEP: _step,
    Shape.SPIKES: _spikes,
    Shape.DIURNAL: _diurnal,
    Shape.ERRATIC: _erratic,
}
