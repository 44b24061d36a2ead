"""The inputs of a prediction just before a kill, the predictions, and the time that the recovery took.

Inputs are kept as JSON, so that a later model can be judged by the same failovers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from holdfast.ft_policies.prediction.calibration import UNCALIBRATED, Calibration
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.model import RecoveryModel, StateAges, StepTimings
from holdfast.ft_policies.prediction.steps import TIERS, Load, Moment, RecoveryStep
from holdfast.ft_policies.prediction.thesis import ThesisModel
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.measurements import RECENT_SECONDS, measure
from holdfast.observation.recovery_history import Recovery
from holdfast.observation.status import observe_stream
from holdfast.resources.control_store.records import Slot
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.recent import Level
from holdfast.resources.project import Project
from holdfast.streaming.replica.failover import POLL_SECONDS

Steps: TypeAlias = Mapping[RecoveryStep, Sequence[Observation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionInputs:
    """The inputs of a prediction just before a kill, except for the timings of steps; `writes` are bytes and seconds."""

    at: float
    rows_per_second: float
    capacity_rows_per_second: float
    state_bytes: float
    epoch_seconds: float
    snapshot_age: float
    sync_age: float
    rows_since_snapshot: float
    writes: Sequence[tuple[float, float]]
    epoch_age: float
    """Seconds since the newest epoch was decided."""
    commit_age: float
    """Seconds since the newest commit."""
    waiting_epochs: int
    """Decided and not yet committed."""
    batch_seconds: float
    """The mean of the last minute."""
    longest_batch_seconds: float
    heartbeat_age: float | None = None
    """Seconds since the last sign of life of the primary."""
    heartbeat_seconds: float = 0.5
    """The time between two of them."""

    @classmethod
    def of(cls, project: Project, stream: str) -> "PredictionInputs":
        """Measure them now; ages are those of the epochs that would have to be replayed.

        The moment is read last: the rest takes up to a fifth of a second, in which a heartbeat or an epoch may come.
        """
        store = project.store
        measured = measure(store, [project.config.stream(stream)])[stream]
        load, secondary = measured.load, observe_stream(project, stream).secondary
        newest = store.snapshots.newest(stream)
        batches = store.recent.levels(
            [SampleName.BATCH_SECONDS], stream, since_at=measured.at - RECENT_SECONDS
        )
        batch = batches.get(stream, {}).get(SampleName.BATCH_SECONDS, Level(mean=0.0, most=0.0))
        primary = store.replicas.live(stream, Slot.PRIMARY)
        decided, committed, now = store.epochs.last(stream), store.ledger.last(stream), store.now()
        assert decided is not None
        assert committed is not None
        assert primary is not None
        assert primary.heartbeat_at is not None
        decided_epoch = decided.epoch

        def age(epoch: int | None) -> float:
            return (decided_epoch - (-1 if epoch is None else epoch)) * float(load.epoch_seconds)

        return cls(
            at=now,
            rows_per_second=float(load.rows_per_second),
            capacity_rows_per_second=float(load.capacity_rows_per_second),
            state_bytes=float(load.state_bytes),
            epoch_seconds=float(load.epoch_seconds),
            snapshot_age=age(None if newest is None else newest.epoch),
            sync_age=age(None if secondary is None else secondary.epoch),
            rows_since_snapshot=float(load.rows_per_second) * measured.snapshot_age_seconds,
            writes=[(write.size, write.seconds) for write in measured.step_timings.writes],
            epoch_age=now - decided.decided_at,
            commit_age=now - committed.committed_at,
            waiting_epochs=decided.epoch - committed.epoch,
            batch_seconds=batch.mean,
            longest_batch_seconds=batch.most,
            heartbeat_age=now - primary.heartbeat_at,
            heartbeat_seconds=project.timings(stream).heartbeat_seconds,
        )

    def predict(
        self, steps: Steps, tier: Tier, calibration: Calibration = UNCALIBRATED
    ) -> dict[str, float]:
        """The seconds that each model would have predicted."""
        step_timings = self.timings(steps)
        ages = StateAges(snapshot=self.snapshot_age, sync=self.sync_age)
        predictions = {
            "ours": RecoveryModel().predict_at(
                step_timings,
                self.load,
                ages,
                calibration=calibration,
                moment=self.moment,
            ),
            "thesis": ThesisModel(count_detection=True).predict(
                step_timings, self.load, rows_since_snapshot=self.rows_since_snapshot
            ),
        }
        return {
            name: float(prediction.seconds[TIERS.index(tier)])
            for name, prediction in predictions.items()
        }

    @property
    def moment(self) -> Moment:
        """The moment of the kill; where the age of the last heartbeat was not recorded, as if the next was due.

        Past pauses are known until the takeover, not until the failure: if an epoch waits, so much of them is no work.
        """
        age = self.heartbeat_seconds if self.heartbeat_age is None else self.heartbeat_age
        waits = self.waiting_epochs > 0
        return Moment(
            epoch_age=self.epoch_age,
            epoch_waits=waits,
            silent_seconds=min(age, self.commit_age) + (POLL_SECONDS if waits else 0.0),
            until_heartbeat=max(self.heartbeat_seconds - age, 0.0),
        )

    @property
    def load(self) -> Load:
        """The load of the stream."""
        return Load(
            rows_per_second=self.rows_per_second,
            capacity_rows_per_second=self.capacity_rows_per_second,
            state_bytes=self.state_bytes,
            epoch_seconds=self.epoch_seconds,
            batch_seconds=self.batch_seconds,
            longest_batch_seconds=self.longest_batch_seconds,
        )

    def timings(self, steps: Steps) -> StepTimings:
        """The timings of steps, with the snapshots that had been written."""
        writes = [Observation(seconds=seconds, size=size) for size, seconds in self.writes]
        return StepTimings(steps=steps, writes=writes)


def measure_steps(project: Project, stream: str) -> Steps:
    """The timings of the steps of a stream's recoveries until now."""
    return measure(project.store, [project.config.stream(stream)])[stream].step_timings.steps


def find_recovery(project: Project, stream: str, *, since_at: float) -> Recovery | None:
    """The first recovery that the stream has measured since then."""
    measured = measure(project.store, [project.config.stream(stream)])[stream]
    return next((recovery for recovery in measured.recoveries if recovery.at >= since_at), None)


def steps_to_json(steps: Steps) -> dict[str, Any]:
    """Steps as JSON."""
    return {step.value: [asdict(timing) for timing in timings] for step, timings in steps.items()}


def read_steps(kept: Mapping[str, Any]) -> Steps:
    """The inverse of `steps_to_json`."""
    return {
        RecoveryStep(step): [
            Observation(**{**timing, "readiness": Readiness(timing["readiness"])})
            for timing in timings
        ]
        for step, timings in kept.items()
    }
