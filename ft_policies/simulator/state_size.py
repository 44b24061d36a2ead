"""The state size of a stream, given its load: a sliding window follows the rate with a lag."""

from dataclasses import dataclass

import numpy as np

from holdfast.ft_policies.prediction.steps import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """The state is what arrived within the window, at a fixed number of bytes per row."""

    window_seconds: float
    bytes_per_row: float

    @property
    def bytes_per_rate(self) -> float:
        """The state of a steady load, per row per second."""
        return self.window_seconds * self.bytes_per_row

    def fill(self, tick_seconds: float) -> "WindowState":
        """The state of streams under a load that changes once a tick."""
        ticks = max(1, round(self.window_seconds / tick_seconds))
        return WindowState(ticks, self.bytes_per_rate / ticks)


class WindowState:
    """The state of all streams over time; the load before the first tick counts as that of the first."""

    def __init__(self, window_ticks: int, bytes_per_rate: float) -> None:
        self._ticks = window_ticks
        self._bytes_per_rate = bytes_per_rate
        self._before: FloatArray | None = None
        self._within: FloatArray | float = 0.0

    def after(self, rows_per_second: FloatArray) -> FloatArray:
        """Bytes at each of the next ticks; rates and bytes are (ticks, streams)."""
        if self._before is None:
            self._before = np.repeat(rows_per_second[:1], self._ticks, axis=0)
            self._within = self._before.sum(axis=0)
        rates = np.concatenate((self._before, rows_per_second))
        within = rows_per_second - rates[: len(rows_per_second)]
        within[0] += self._within
        np.cumsum(within, axis=0, out=within)
        self._before, self._within = rates[-self._ticks :].copy(), within[-1].copy()
        np.maximum(within, 0.0, out=within)
        within *= self._bytes_per_rate
        return within


class Trend:
    """The load when a change will be done, if it continues as in the last period of that length.

    A falling load is expected to stay: the predicted load is never below the present one.
    """

    def __init__(self, ahead_seconds: float, tick_seconds: float) -> None:
        self._share = 1.0 - np.exp(-tick_seconds / max(ahead_seconds, tick_seconds))
        self._usual: FloatArray | None = None

    def ahead(self, load: FloatArray) -> FloatArray:
        """The predicted load: as far above the present load as that is above its usual one."""
        if self._usual is None:
            self._usual = load.copy()
        risen = load - self._usual
        self._usual += self._share * risen
        np.maximum(risen, 0.0, out=risen)
        risen += load
        return risen
