"""Instances that are billed by the started hour: a paid instance is kept and used (F49).

Times are seconds on one clock: floats, or arrays with one element per stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.ft_policies.costs.prices import SECONDS_OF_AN_HOUR
from holdfast.ft_policies.prediction.steps import (
    HAS_SECONDARY,
    BoolArray,
    FloatArray,
    FloatLike,
    IntArray,
)

# An hour that ends now has ended, whatever the last digits of two timestamps say.
_SLACK_HOURS = 1e-6

RELEASE_SECONDS = 60.0  # how long a release may take, including the wait for the next review


@dataclass(frozen=True, slots=True)
class Span:
    """The period in which an instance ran."""

    started_at: float
    ended_at: float


def paid_until(started_at: FloatLike, now: FloatLike) -> FloatArray:
    """The end of the started hour that `now` is in; a new one starts as the last one ends."""
    return (
        started_at + (np.floor(_hours(started_at, now) + _SLACK_HOURS) + 1.0) * SECONDS_OF_AN_HOUR
    )


def keep_paid(
    wanted: IntArray,
    *,
    started_at: FloatArray,
    now: float,
    allowed: BoolArray,
    release_seconds: float = RELEASE_SECONDS,
) -> IntArray:
    """Keep paid instances: the tiers for streams that want these tiers, as indices into `TIERS`.

    Where the wanted tier has no secondary but an instance is still paid for, the fastest allowed tier
    uses it, until `release_seconds` before its hour ends. `started_at` (n,) is NaN where there is no
    secondary; `allowed` is (n, 6).
    """
    usable = allowed & HAS_SECONDARY
    paid = np.greater(paid_until(started_at, now) - now, release_seconds)
    keep = ~HAS_SECONDARY[wanted] & paid & usable.any(axis=-1)
    return np.where(keep, usable.argmax(axis=-1), wanted)


def count_instance_hours(
    spans: Sequence[Span],
    *,
    started_hours: bool,
    since: float = -np.inf,
    until: float = np.inf,
) -> float:
    """The hours that fall due from `since` to `until`: those of two days add up to those of both.

    A started hour falls due as a whole when it starts, and an instance starts one at least.
    """
    started, ended = np.array([(span.started_at, span.ended_at) for span in spans]).reshape(-1, 2).T
    run = _hours(started, ended)
    if not started_hours:
        return float(np.sum(_due_by(run, started, until) - _due_by(run, started, since)))
    whole = np.maximum(np.ceil(run - _SLACK_HOURS), 1.0)
    due = _count_started(whole, started, until) - _count_started(whole, started, since)
    return float(np.sum(due))


def _hours(start: FloatLike, end: FloatLike) -> FloatArray:
    return np.asarray((end - start) / SECONDS_OF_AN_HOUR)


def _due_by(run: FloatArray, started: FloatArray, moment: float) -> FloatArray:
    return np.clip(_hours(started, moment), 0.0, run)


def _count_started(whole: FloatArray, started: FloatArray, moment: float) -> FloatArray:
    return np.clip(np.ceil(_hours(started, moment) - _SLACK_HOURS), 0.0, whole)
