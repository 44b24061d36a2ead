"""Which tier, at which interval: the cheapest that holds the objective, and no flapping.

All streams at once, as arrays, so that the live review and the simulator decide with one code.
Inside, the candidates of a stream (a tier at an interval) are the first axis and the streams the
last: reductions over few candidates of many streams are then long vector operations. Candidates
are in the order in which ties are broken, so a candidate's number is also its rank.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ft_policies.errors import PermanentError
from ft_policies.tiers import Tier

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.integer]
BoolArray: TypeAlias = NDArray[np.bool_]

_TIERS = len(Tier)
_TIE = 1 + 1e-9


class Why(IntEnum):
    """What settled the choice for a stream."""

    CHEAPEST = 0
    """It stays: nothing that holds the objective is cheaper."""
    SAVES = 1
    """It moves to something cheaper that holds the objective."""
    NEEDED = 2
    """It moves, because where it is it would miss the objective."""
    SMALL_SAVING = 3
    """It stays: what the move would save is not worth it."""
    DWELLING = 4
    """It stays: it has not been there for long enough to save by a move."""
    COOLING_DOWN = 5
    """It stays, whatever would be better: it has only just changed."""
    TOO_LITTLE_DATA = 6
    """Nothing is known of its recovery yet: the fastest tier."""
    CANNOT_HOLD = 7
    """No tier that it may have holds the objective: the fastest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of n streams, each with k candidates of intervals, the shortest first.

    A candidate that a stream does not have costs infinity. `since_change` is the time since the
    tier or the interval changed last.
    """

    predicted: FloatArray
    """Seconds of a recovery (n, k, 6)."""
    predicted_ahead: FloatArray
    """The same at the load that is expected once a change has finished (n, k, 6)."""
    cost: FloatArray
    """In whatever unit, never negative (n, k, 6)."""
    objective: FloatArray
    allowed: BoolArray
    """Which tiers a stream may have (n, 6)."""
    enough: BoolArray
    """Whether there are data enough to trust the predictions."""
    current: IntArray
    current_interval: IntArray
    since_change: FloatArray
    recent_misses: IntArray | FloatArray

    def __post_init__(self) -> None:
        n, k, tiers = self.cost.shape
        wanted = (n, k, tiers)
        if (
            tiers != _TIERS
            or k == 0
            or self.predicted.shape != wanted
            or self.predicted_ahead.shape != wanted
            or self.allowed.shape != (n, tiers)
            or self.objective.shape != (n,)
        ):
            raise PermanentError(
                f"the arrays of a situation do not fit: cost {wanted},"
                f" predicted {self.predicted.shape}, ahead {self.predicted_ahead.shape},"
                f" allowed {self.allowed.shape}, objective {self.objective.shape}",
                hint="pass (streams, intervals, 6 tiers), (streams, 6 tiers) and (streams,)",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What each of n streams should have, and why."""

    tier: IntArray
    interval: IntArray
    why: IntArray
    """Codes of `Why`."""
    best: IntArray
    """The tier that it would be without cool-down, dwell, band and margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPolicy:
    """How eagerly a stream is moved.

    A stream that holds its objective moves only for a saving, after a dwell, and to what holds
    with a margin that grows with its recent misses. One that does not hold it moves at once.
    Neither moves within the cool-down.
    """

    cool_down_seconds: float = 60.0
    dwell_seconds: float = 300.0
    min_relative_saving: float = 0.10
    margin_per_miss: float = 0.15
    largest_margin: float = 0.5

    def choose(self, situation: Situation) -> Choice:
        """The tier and the interval for each stream."""
        raise NotImplementedError
