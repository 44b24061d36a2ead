"""The steps of a recovery, tier by tier, and how many rows it has to replay.

Everything works on NumPy arrays whose last axis is the tier, in the order of `TIERS`; the leading axes
are the caller's: none, intervals, streams, or both. So the live review and the simulator share one formula.
A recovery ends with the first new committed epoch.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.ft_policies.tiers import SECONDARY, Tier

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]
FloatLike: TypeAlias = float | FloatArray
BoolLike: TypeAlias = bool | BoolArray

LEAST_RATE = 1e-9  # rows a second: a rate that was not measured limits nothing
TIERS: tuple[Tier, ...] = tuple(Tier)
HAS_SECONDARY: BoolArray = np.array([SECONDARY[tier].deploy for tier in TIERS])


class RecoveryStep(StrEnum):
    """A step of a recovery, in order."""

    DETECT = "detect"
    DEPLOY = "deploy"
    READ_SNAPSHOT = "read_snapshot"
    WIRE_RECEIVE = "wire_receive"
    WIRE_SEND = "wire_send"
    REPLAY = "replay"
    FIRST_COMMIT = "first_commit"


STEPS: tuple[RecoveryStep, ...] = tuple(RecoveryStep)
_STANDBY = {
    RecoveryStep.DETECT,
    RecoveryStep.WIRE_SEND,
    RecoveryStep.REPLAY,
    RecoveryStep.FIRST_COMMIT,
}
_STEPS_OF: dict[Tier, set[RecoveryStep]] = {
    Tier.ACTIVE_REPLICATION: {RecoveryStep.FIRST_COMMIT},  # the other replica sends already
    Tier.ACTIVE_STANDBY: _STANDBY,
    Tier.PASSIVE_STANDBY_HOT: _STANDBY,
    Tier.PASSIVE_STANDBY_COLD: _STANDBY | {RecoveryStep.WIRE_RECEIVE},
    Tier.DEPLOYED: _STANDBY | {RecoveryStep.WIRE_RECEIVE, RecoveryStep.READ_SNAPSHOT},
    Tier.PASSIVE_REPLICATION: set(RecoveryStep),
}
GOES_THROUGH: BoolArray = np.array([[step in _STEPS_OF[tier] for step in STEPS] for tier in TIERS])
"""Which tier (first axis) goes through which step (second axis)."""
_HAS = {step: GOES_THROUGH[:, index] for index, step in enumerate(STEPS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """The seconds of each step: a float, or an array that can be broadcast to (..., tiers)."""

    detect: FloatLike
    deploy: FloatLike
    read_snapshot: FloatLike
    wire_receive: FloatLike
    wire_send: FloatLike
    replay: FloatLike
    first_commit: FloatLike = 0.0

    def of_tiers(self, *, precise: BoolLike = True, count_detection: bool = True) -> FloatArray:
        """The seconds that count in each tier, (..., tiers, steps); 0 where it has no such step."""
        parts = np.broadcast_arrays(*_list_charged(self, precise, count_detection=count_detection))
        return np.stack(parts, axis=-1)


def with_commit(steps: StepSeconds, commit_seconds: FloatLike) -> StepSeconds:
    """The same steps, and a first commit that takes at least as long as one takes now; (..., tiers).

    The times of earlier recoveries are from when the table was smaller.
    """
    return replace(steps, first_commit=np.maximum(steps.first_commit, commit_seconds))


def recovery_seconds(
    steps: StepSeconds, *, precise: BoolLike = True, count_detection: bool = True
) -> FloatArray:
    """How long each tier takes to recover, (..., tiers).

    Without `precise` (a guarantee of `gap`) nothing is replayed; without `count_detection` the detection
    is left out, as in the thesis. `precise` has the leading axes only.
    """
    total = np.zeros(len(TIERS))
    for part in _list_charged(steps, precise, count_detection=count_detection):
        total = total + part
    return total


def _list_charged(
    steps: StepSeconds, precise: BoolLike, *, count_detection: bool
) -> tuple[FloatArray, ...]:
    """The seconds of each step in the order of `STEPS`; of two parallel wires only the longer counts."""
    detect = steps.detect if count_detection else 0.0
    receive = _where(RecoveryStep.WIRE_RECEIVE, steps.wire_receive)
    send = _where(RecoveryStep.WIRE_SEND, steps.wire_send)
    waits_for_input = receive > send
    replays = _HAS[RecoveryStep.REPLAY] & np.asarray(precise)[..., np.newaxis]
    return (
        _where(RecoveryStep.DETECT, detect),
        _where(RecoveryStep.DEPLOY, steps.deploy),
        _where(RecoveryStep.READ_SNAPSHOT, steps.read_snapshot),
        np.where(waits_for_input, receive, 0.0),
        np.where(waits_for_input, 0.0, send),
        np.where(replays, steps.replay, 0.0),
        _where(RecoveryStep.FIRST_COMMIT, steps.first_commit),
    )


def _where(step: RecoveryStep, seconds: FloatLike) -> FloatArray:
    return np.where(_HAS[step], seconds, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a stream: floats, or arrays that can be broadcast to each other (no axis of tiers).

    `capacity_rows_per_second` is the rate of a driver that catches up; `state_bytes` is what a restore reads.
    `epoch_seconds` is the time between two epochs, `batch_seconds` what the query takes for one, with its commit:
    on average, and at most.
    `commit_seconds` is what that alone takes, which grows with the files and the log of the table.
    """

    rows_per_second: FloatLike
    capacity_rows_per_second: FloatLike
    state_bytes: FloatLike
    epoch_seconds: FloatLike
    batch_seconds: FloatLike = 0.0
    longest_batch_seconds: FloatLike = 0.0
    commit_seconds: FloatLike = 0.0

    def with_commit(self) -> "Load":
        """The same load, and no batch that takes less than a commit does now."""
        return replace(self, batch_seconds=np.maximum(self.batch_seconds, self.commit_seconds))

    @property
    def row_seconds(self) -> FloatArray:
        """What a row of a long replay takes: its share of an epoch's batch, and no less than at full speed."""
        capacity = np.asarray(self.capacity_rows_per_second, dtype=np.float64)
        rows = np.asarray(self.rows_per_second, dtype=np.float64) * self.epoch_seconds
        at_full_speed = 1.0 / np.maximum(capacity, LEAST_RATE)
        return np.maximum(at_full_speed, self.batch_seconds / np.maximum(rows, LEAST_RATE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a primary fails, between two epochs; the default is the worst: one has just been committed."""

    epoch_age: FloatLike = 0.0
    """Seconds since the newest epoch was decided."""
    epoch_waits: bool = False
    """That epoch is not committed yet: its commit ends the recovery."""
    silent_seconds: float = 0.0
    """Since the last sign of life, or the last commit if that came later: so much of a pause is already over."""
    until_heartbeat: float = 0.0
    """Until the next sign of life was due: so much earlier than at worst a secondary notices."""

    def until_next_epoch(self, epoch_seconds: FloatLike) -> FloatArray:
        """Seconds until there is an epoch to commit."""
        wait = np.maximum(np.asarray(epoch_seconds, dtype=np.float64) - self.epoch_age, 0.0)
        return np.where(self.epoch_waits, 0.0, wait)


WORST = Moment()


def rows_since_state(
    load: Load, *, snapshot_age_seconds: FloatLike, sync_age_seconds: FloatLike
) -> FloatArray:
    """The rows between the state that a tier continues from and the failure, (..., tiers).

    A secondary that processes is at most one epoch behind.
    """
    sync, snapshot = np.asarray(sync_age_seconds), np.asarray(snapshot_age_seconds)
    ages = (0.0, load.epoch_seconds, sync, sync, snapshot, snapshot)
    rows = [np.asarray(load.rows_per_second) * age for age in ages]
    return np.stack(np.broadcast_arrays(*rows), axis=-1)
