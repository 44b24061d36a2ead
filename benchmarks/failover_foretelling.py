"""What is known before a kill, what the models make of it, and what the recovery took.

What is known can be kept as JSON, so that a model which is better than today's can be judged by the same
failovers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any, TypeAlias

from ft_policies.prediction.estimators import Observation, Readiness
from ft_policies.prediction.model import RecoveryModel, StateAges, StepTimings
from ft_policies.prediction.steps import TIERS, Load, RecoveryStep
from ft_policies.prediction.thesis import ThesisModel
from ft_policies.tiers import Tier
from streaming.measuring import measure
from streaming.observing import observe
from streaming.world import World

Steps: TypeAlias = Mapping[RecoveryStep, Sequence[Observation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a stream just before a kill, but for what its steps took; `writes` are bytes and seconds."""

    at: float
    rows_per_second: float
    capacity_rows_per_second: float
    state_bytes: float
    epoch_seconds: float
    snapshot_age: float
    sync_age: float
    rows_since_snapshot: float
    writes: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, world: World, stream: str) -> "Known":
        """Ages are in epochs that were decided since: what has to be replayed."""
        measured = measure(world.store, [world.project.stream(stream)])[stream]
        load, seen = measured.load, observe(world, stream)
        newest, secondary = world.store.snapshots.newest(stream), seen.secondary
        decided = -1 if seen.epoch is None else seen.epoch.epoch

        def age(epoch: int | None) -> float:
            return (decided - (-1 if epoch is None else epoch)) * float(load.epoch_seconds)

        return cls(
            at=measured.at,
            rows_per_second=float(load.rows_per_second),
            capacity_rows_per_second=float(load.capacity_rows_per_second),
            state_bytes=float(load.state_bytes),
            epoch_seconds=float(load.epoch_seconds),
            snapshot_age=age(None if newest is None else newest.epoch),
            sync_age=age(None if secondary is None else secondary.epoch),
            rows_since_snapshot=float(load.rows_per_second) * measured.snapshot_age_seconds,
            writes=[(write.size, write.seconds) for write in measured.step_timings.writes],
        )

    def foretell(self, steps: Steps, tier: Tier) -> dict[str, float]:
        """Seconds of a recovery if the primary failed then, by each model; infinite if it cannot tell."""
        writes = [Observation(seconds=seconds, size=size) for size, seconds in self.writes]
        step_timings = StepTimings(steps=steps, writes=writes)
        load = Load(
            rows_per_second=self.rows_per_second,
            capacity_rows_per_second=self.capacity_rows_per_second,
            state_bytes=self.state_bytes,
            epoch_seconds=self.epoch_seconds,
        )
        ages = StateAges(snapshot=self.snapshot_age, sync=self.sync_age)
        found = {
            "ours": RecoveryModel().predict_at(step_timings, load, ages),
            "thesis": ThesisModel(count_detection=True).predict(
                step_timings, load, rows_since_snapshot=self.rows_since_snapshot
            ),
        }
        return {name: float(one.seconds[TIERS.index(tier)]) for name, one in found.items()}


def measured_steps(world: World, stream: str) -> Steps:
    """What the steps of a stream's recoveries took until now."""
    return measure(world.store, [world.project.stream(stream)])[stream].step_timings.steps


def recovered_in(world: World, stream: str, *, since_at: float) -> float:
    """Seconds from the last sign of life until the stream was level, as it was measured itself."""
    measured = measure(world.store, [world.project.stream(stream)])[stream]
    return next((one.seconds for one in measured.recoveries if one.at >= since_at), nan)


def written(steps: Steps) -> dict[str, Any]:
    """Steps as JSON."""
    return {step.value: [asdict(one) for one in all_] for step, all_ in steps.items()}


def read_until(kept: Mapping[str, Any], at: float) -> Steps:
    """What of them had been measured at a time."""
    return {
        RecoveryStep(step): [
            Observation(**{**one, "readiness": Readiness(one["readiness"])})
            for one in all_
            if one["at"] <= at
        ]
        for step, all_ in kept.items()
    }
