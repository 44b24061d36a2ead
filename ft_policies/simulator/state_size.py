"""How much state a stream has, given its load: that of a sliding window follows the rate with the window's lag."""

from dataclasses import dataclass

import numpy as np

from holdfast.ft_policies.prediction.steps import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """State is what arrived within the window: so many bytes for each row."""

    window_seconds: float
    bytes_per_row: float

    @property
    def bytes_per_rate(self) -> float:
        """The state of a steady load, for each row a second."""
        return self.window_seconds * self.bytes_per_row

    def filled(self, tick_seconds: float) -> "WindowState":
        """The state of streams that look at their load once a tick."""
        ticks = max(1, round(self.window_seconds / tick_seconds))
        return WindowState(ticks, self.bytes_per_rate / ticks)


class WindowState:
    """The state of all streams over time; before the first tick the load was that of the first tick."""

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
    """Where the load will be when a change is done, if it goes on as it went over the last such time.

    A load that falls is taken to stay: what is foreseen is never less than what there is.
    """

    def __init__(self, ahead_seconds: float, tick_seconds: float) -> None:
        self._share = 1.0 - np.exp(-tick_seconds / max(ahead_seconds, tick_seconds))
        self._usual: FloatArray | None = None

    def ahead(self, load: FloatArray) -> FloatArray:
        """As far above the load as that is above its usual one."""
        if self._usual is None:
            self._usual = load.copy()
        risen = load - self._usual
        self._usual += self._share * risen
        np.maximum(risen, 0.0, out=risen)
        risen += load
        return risen
