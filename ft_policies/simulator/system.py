"""A system to simulate: its recovery times, the cost of its tiers, and its controller."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.ft_policies.costs.prices import TierShares, Usage, compute_overhead, thesis_overhead
from holdfast.ft_policies.prediction.calibration import Calibration
from holdfast.ft_policies.prediction.model import Bounds, RecoveryModel, StateAges, StepTimings
from holdfast.ft_policies.prediction.steps import FloatArray, FloatLike, Load
from holdfast.ft_policies.prediction.thesis import ThesisModel
from holdfast.ft_policies.simulator.state_size import SlidingWindow
from holdfast.ft_policies.tiering.controller import ControllerPolicy

_OF_95_PERCENT = 1.645
RESOURCES: Mapping[str, str] = {
    "cpu": "cpu_cores",
    "memory": "memory_bytes",
    "network": "network_bytes_per_second",
    "instances": "instances",
}
"""The four resources that the thesis weighs, and their names in `Usage`."""


class Recoveries(Protocol):
    """Recovery times, given the age of the state."""

    def seconds(self, load: Load, ages: StateAges, *, precise: bool) -> FloatArray: ...


class Overheads(Protocol):
    """What the tiers add to a primary."""

    def of(
        self,
        primary: Usage,
        *,
        state_bytes: FloatArray,
        snapshot_every: FloatArray,
        sync_every: FloatArray,
    ) -> Usage: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The resources that a primary uses for its load; all grow linearly with rows and state."""

    cpu_seconds_per_row: float
    cpu_cores: float = 0.0
    memory_bytes: float
    memory_per_state_byte: float
    network_bytes_per_row: float
    capacity_rows_per_second: float

    def usage(self, rows_per_second: FloatArray, state_bytes: FloatArray) -> Usage:
        """The usage of primaries with these loads, with an axis for the tiers."""
        rows, state = rows_per_second[..., np.newaxis], state_bytes[..., np.newaxis]
        return Usage(
            cpu_cores=self.cpu_cores + rows * self.cpu_seconds_per_row,
            memory_bytes=self.memory_bytes + state * self.memory_per_state_byte,
            network_bytes_per_second=rows * self.network_bytes_per_row,
            instances=1.0,
        )

    def scale_to(
        self,
        primary: Usage,
        *,
        rows_per_second: float,
        state_bytes: float,
        capacity_rows_per_second: float,
    ) -> "Work":
        """Scale in proportion, so that a primary with this load uses what was measured."""
        usage = self.usage(np.array(rows_per_second), np.array(state_bytes))

        def factor(use: str) -> float:
            return float(getattr(primary, use) / getattr(usage, use).item()) or 1.0

        cpu, memory, network = map(
            factor, ("cpu_cores", "memory_bytes", "network_bytes_per_second")
        )
        return Work(
            cpu_cores=self.cpu_cores * cpu,
            cpu_seconds_per_row=self.cpu_seconds_per_row * cpu,
            memory_bytes=self.memory_bytes * memory,
            memory_per_state_byte=self.memory_per_state_byte * memory,
            network_bytes_per_row=self.network_bytes_per_row * network,
            capacity_rows_per_second=capacity_rows_per_second or self.capacity_rows_per_second,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system and its controller.

    A prediction is an upper bound for the oldest possible state; a real recovery starts from a state of any
    age, and its time is lognormal with the sigma `spread`, 95 of 100 below the bound. A change takes
    `change_seconds`; with `looks_ahead` the load is extrapolated over that time. Half of a miss is forgotten
    after `forgets_seconds`. Intervals are candidates, the shortest first.
    """

    tick_seconds: float
    policy: ControllerPolicy
    recoveries: Recoveries
    overheads: Overheads
    work: Work
    usual_rows_per_second: float
    state: SlidingWindow
    snapshot_every: tuple[float, ...]
    sync_every: tuple[float, ...]
    ship_seconds: float
    sync_seconds: float
    epoch_seconds: float
    change_seconds: float
    learns_seconds: float
    batch_seconds: float = 0.0
    longest_batch_seconds: float = 0.0
    forgets_seconds: float = 6 * 3600.0
    spread: float = 0.0
    looks_ahead: bool = False

    def load(self, rows_per_second: FloatArray, state_bytes: FloatArray) -> Load:
        """The load as the recovery model takes it."""
        capacity = self.work.capacity_rows_per_second
        return Load(
            rows_per_second=rows_per_second,
            capacity_rows_per_second=np.maximum(rows_per_second, capacity),
            state_bytes=state_bytes,
            epoch_seconds=self.epoch_seconds,
            batch_seconds=self.batch_seconds,
            longest_batch_seconds=self.longest_batch_seconds,
        )

    def ages(self, intervals: NDArray[np.intp], phase: FloatLike = 1.0) -> StateAges:
        """The age of the state at a phase of these intervals: at 1, just before the next snapshot.

        A snapshot comes at the end of the epoch in which it is due, so the epoch adds to the age.
        """
        return StateAges.oldest(
            snapshot_every=phase * np.array(self.snapshot_every)[intervals],
            sync_every=phase * np.array(self.sync_every)[intervals],
            ship_seconds=self.ship_seconds,
            sync_seconds=self.sync_seconds,
            epoch_seconds=phase * self.epoch_seconds,
        )

    def overhead(self, rows_per_second: FloatArray, state_bytes: FloatArray) -> Usage:
        """What each tier adds at each interval; loads (..., 1 or intervals) give (..., intervals, tiers)."""
        return self.overheads.of(
            self.work.usage(rows_per_second, state_bytes),
            state_bytes=state_bytes,
            snapshot_every=np.array(self.snapshot_every),
            sync_every=np.array(self.sync_every),
        )

    def real(self, bound: FloatArray, luck: FloatArray) -> FloatArray:
        """The real time for a known bound; `luck` is drawn from a normal distribution."""
        return bound * np.exp(self.spread * (luck - _OF_95_PERCENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThesisRecoveries:
    """Recovery times of the thesis: one replay for all tiers, without detection."""

    step_timings: StepTimings
    model: ThesisModel = field(default_factory=ThesisModel)

    def seconds(self, load: Load, ages: StateAges, *, precise: bool) -> FloatArray:
        """Seconds of every tier, (..., tiers); an idle stream counts with one row per second."""
        paced = replace(load, rows_per_second=np.maximum(load.rows_per_second, 1.0))
        rows = paced.rows_per_second * ages.snapshot
        return self.model.predict(
            self.step_timings, paced, rows_since_snapshot=rows, precise=precise
        ).seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRecoveries:
    """Recovery times of Holdfast: a line over its size for each step of each tier."""

    bounds: Bounds
    model: RecoveryModel = field(default_factory=RecoveryModel)
    calibration: Calibration | None = None

    def seconds(self, load: Load, ages: StateAges, *, precise: bool) -> FloatArray:
        """Seconds of every tier, (..., tiers)."""
        _, seconds = self.model.seconds(
            self.bounds, load, ages, precise=precise, calibration=self.calibration
        )
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ThesisOverheads:
    """The whole state at each sync and snapshot; a hot standby queues the input since the last sync."""

    receive_share: float
    deserialise_share: float
    code_bytes: float

    def of(
        self,
        primary: Usage,
        *,
        state_bytes: FloatArray,
        snapshot_every: FloatArray,
        sync_every: FloatArray,
    ) -> Usage:
        """What each tier adds, (..., tiers)."""
        input_per_second = np.asarray(primary.network_bytes_per_second)[..., 0] * self.receive_share
        return thesis_overhead(
            primary,
            state_bytes=state_bytes,
            sync_every=sync_every,
            snapshot_every=snapshot_every,
            queue_bytes=input_per_second * sync_every,
            receive_share=self.receive_share,
            deserialise_share=self.deserialise_share,
            code_bytes=self.code_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOverheads:
    """What is new of the state at each snapshot: with a sliding window, all of it within a window."""

    shares: TierShares
    new_share_per_second: float
    requests_per_snapshot: float
    requests_per_sync: float

    def of(
        self,
        primary: Usage,
        *,
        state_bytes: FloatArray,
        snapshot_every: FloatArray,
        sync_every: FloatArray,
    ) -> Usage:
        """What each tier adds, (..., tiers)."""
        return compute_overhead(
            primary,
            self.shares,
            new_state_bytes_per_second=state_bytes * self.new_share_per_second,
            sync_every=sync_every,
            snapshot_every=snapshot_every,
            requests_per_snapshot=self.requests_per_snapshot,
            requests_per_sync=self.requests_per_sync,
            stored_bytes=state_bytes,
        )
