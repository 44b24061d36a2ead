"""How many rows a synthetic input has produced by a given time, and when it produced row i.

Every profile is a cumulative curve that is linear between knots, so that counting rows at a time
and dating a row by its number are the same interpolation, once in each direction.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from configs.sources import ConstantProfile, DiurnalProfile, Profile, SpikesProfile, StepProfile

DIURNAL_KNOTS = 1440

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """A cumulative curve: `rows[k]` rows have come after `seconds[k]`.

    After the last knot it repeats if `periodic`, and goes on with the last slope otherwise.
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
