"""The measurements of streams in the control store, as the models need them: step timings, load, usage.

All streams are read with the same few queries as one. A value without measurements is missing from the
timings, or 0; only the time to detect a failure has a bound before that, from the declaration.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.costs.prices import TierShares, Usage
from holdfast.ft_policies.prediction.estimators import Observation
from holdfast.ft_policies.prediction.model import StepTimings
from holdfast.ft_policies.prediction.steps import TIERS, Load
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import (
    LONGEST_LOSS_SECONDS,
    STEP_SAMPLES,
    Recovery,
    StepHistory,
)
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.epochs.ledger import Ledger
from holdfast.resources.control_store.tables.recent import Input, Level, Primary, Shipment

USE_SAMPLES = (
    SampleName.CPU_CORES,
    SampleName.RSS_BYTES,
    SampleName.SECONDARY_CPU_CORES,
    SampleName.SECONDARY_RSS_BYTES,
)
NETWORK_SAMPLES = (
    SampleName.HOST_SENT_BYTES_PER_SECOND,
    SampleName.HOST_RECEIVED_BYTES_PER_SECOND,
)
EPOCH_SAMPLES = (SampleName.BATCH_SECONDS, SampleName.COMMIT_SECONDS)
RARE_SAMPLES = (
    SampleName.SYNC_SECONDS,
    SampleName.SYNC_REQUESTS,
    SampleName.PROCESSED_ROWS_PER_SECOND,
)
RECENT_SECONDS = 60.0
RARE_SECONDS = 600.0  # for what is not measured every few seconds

_NOTHING = Level(mean=0.0, most=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMeasurements:
    """One stream at one time; `growth` is the change of the load in a second."""

    stream: str
    at: float
    step_timings: StepTimings
    recoveries: Sequence[Recovery]
    load: Load
    growth: Load
    primary: Usage
    shares: Mapping[Tier, tuple[float, float]]
    """CPU and memory of the secondary as shares of the primary's, in the tiers it has been in."""
    ship_seconds: float
    sync_seconds: float
    snapshot_age_seconds: float
    new_state_bytes_per_second: float
    requests_per_snapshot: float
    requests_per_sync: float
    stored_bytes: float

    def load_in(self, seconds: float) -> Load:
        """The load in so many seconds, if it goes on to change as it does now."""
        now, growth = self.load, self.growth
        rows = max(float(now.rows_per_second + growth.rows_per_second * seconds), 0.0)
        return Load(
            rows_per_second=rows,
            capacity_rows_per_second=max(rows, float(now.capacity_rows_per_second)),
            state_bytes=max(float(now.state_bytes + growth.state_bytes * seconds), 0.0),
            epoch_seconds=now.epoch_seconds,
            batch_seconds=now.batch_seconds,
            longest_batch_seconds=now.longest_batch_seconds,
            commit_seconds=now.commit_seconds,
        )

    def shares_over(self, shares: TierShares) -> TierShares:
        """The given shares of the tiers, with those that were measured of this stream in their place."""
        for tier, (cpu, memory) in self.shares.items():
            network = float(shares.network[TIERS.index(tier)])
            shares = shares.with_measured(tier, cpu=cpu, memory=memory, network=network)
        return shares


def measure(
    store: ControlStore, declared: Sequence[StreamDeclaration]
) -> dict[str, StreamMeasurements]:
    """Read the measurements of these streams; a stream that never ran has only declared values."""
    only = declared[0].name if len(declared) == 1 else None
    at, recent = store.now(), store.recent
    samples = recent.series(STEP_SAMPLES, only)
    facts = _Facts(
        at=at,
        inputs=recent.inputs(only),
        shipments=recent.shipments(only),
        samples=samples,
        levels=recent.levels(
            (*USE_SAMPLES, *NETWORK_SAMPLES, *EPOCH_SAMPLES),
            only,
            since_at=at - RECENT_SECONDS,
        ),
        rare_levels=recent.levels(RARE_SAMPLES, only, since_at=at - RARE_SECONDS),
        tier_levels=recent.levels_of_tiers(USE_SAMPLES, only),
        primaries=recent.primaries(only, since_at=_oldest_primary_at(samples, at)),
        live_per_host=recent.live_per_host(),
        ledger=store.ledger,
    )
    return {declaration.name: facts.measure(declaration) for declaration in declared}


def _oldest_primary_at(samples: Mapping[str, Sequence[Sample]], at: float) -> float:
    """The time before which a primary that ended belongs to no recovery in the samples."""
    oldest = min((of_stream[0].at for of_stream in samples.values()), default=at)
    return oldest - 2 * LONGEST_LOSS_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """The rows of the control store, by stream."""

    at: float
    inputs: Mapping[str, Input]
    shipments: Mapping[str, Sequence[Shipment]]
    samples: Mapping[str, Sequence[Sample]]
    levels: Mapping[str, Mapping[SampleName, Level]]
    rare_levels: Mapping[str, Mapping[SampleName, Level]]
    tier_levels: Mapping[str, Mapping[Tier, Mapping[SampleName, Level]]]
    primaries: Mapping[str, Sequence[Primary]]
    live_per_host: Mapping[str, int]
    ledger: Ledger

    def measure(self, declared: StreamDeclaration) -> StreamMeasurements:
        name = declared.name
        shipments = _Shipments(self.shipments.get(name, ()))
        primaries = self.primaries.get(name, ())
        history = StepHistory(
            self.samples.get(name, ()),
            primaries,
            declared.supervision.timings(),
            read_ledger=partial(self.ledger.between, name),
        )
        rare = self.rare_levels.get(name, {})
        most_processed = rare.get(SampleName.PROCESSED_ROWS_PER_SECOND, _NOTHING).most
        batch, commit = (
            self.levels.get(name, {}).get(sample, _NOTHING) for sample in EPOCH_SAMPLES
        )
        load, growth = _measure_load(
            declared,
            self.inputs.get(name),
            shipments,
            capacity=max(most_processed, history.fastest_replay()),
            batch=batch,
            commit_seconds=commit.most,
        )
        return StreamMeasurements(
            stream=name,
            at=self.at,
            step_timings=StepTimings(steps=history.steps(), writes=shipments.writes()),
            recoveries=history.recoveries(),
            load=load,
            growth=growth,
            primary=self._primary(name, primaries),
            shares=dict(_secondary_shares(self.tier_levels.get(name, {}))),
            ship_seconds=shipments.most(lambda shipment: shipment.seconds),
            sync_seconds=rare.get(SampleName.SYNC_SECONDS, _NOTHING).most,
            snapshot_age_seconds=shipments.age_at(self.at),
            new_state_bytes_per_second=shipments.new_bytes_per_second(),
            requests_per_snapshot=shipments.requests(),
            requests_per_sync=rare.get(SampleName.SYNC_REQUESTS, _NOTHING).mean,
            stored_bytes=shipments.stored_bytes(),
        )

    def _primary(self, name: str, primaries: Sequence[Primary]) -> Usage:
        """The usage of the primary; only the traffic of its host is measured, and is split by live replicas."""
        levels = self.levels.get(name, {})
        hosts = [primary.host for primary in primaries if primary.ended_at is None]
        sharing = self.live_per_host.get(hosts[-1], 1) if hosts else 1
        traffic = sum(levels.get(sample, _NOTHING).mean for sample in NETWORK_SAMPLES)
        return Usage(
            cpu_cores=levels.get(SampleName.CPU_CORES, _NOTHING).mean,
            memory_bytes=levels.get(SampleName.RSS_BYTES, _NOTHING).mean,
            network_bytes_per_second=traffic / sharing,
            instances=1.0,
        )


@dataclass(frozen=True, slots=True)
class _Shipments:
    """The newest snapshots of a stream, oldest first."""

    snapshots: Sequence[Shipment]

    def writes(self) -> tuple[Observation, ...]:
        return tuple(
            Observation(seconds=row.seconds, size=float(row.new_bytes), at=row.created_at)
            for row in self.snapshots
        )

    def requests(self) -> float:
        """The mean number of requests of a snapshot; 0 without snapshots."""
        requests = [row.requests for row in self.snapshots]
        return sum(requests) / len(requests) if requests else 0.0

    def most(self, value: Callable[[Shipment], float]) -> float:
        """The largest value; 0 without snapshots."""
        return max((value(row) for row in self.snapshots), default=0.0)

    def age_at(self, at: float) -> float:
        """The age of the newest snapshot; 0 without snapshots."""
        return max(at - self.snapshots[-1].created_at, 0.0) if self.snapshots else 0.0

    def halves(self) -> tuple["_Shipments", "_Shipments"]:
        """The older and the newer half; a single snapshot is in the newer one."""
        middle = len(self.snapshots) // 2
        return _Shipments(self.snapshots[:middle]), _Shipments(self.snapshots[middle:])

    @property
    def state_bytes(self) -> float:
        """The largest recent size: it varies, because Spark compacts its state."""
        return self.halves()[1].most(_total_bytes)

    def stored_bytes(self) -> float:
        """Estimate the bytes in the object store: a whole snapshot, and what each other one adds."""
        kept = [row.new_bytes for row in self.snapshots[:-1] if row.kept]
        return self.state_bytes + float(sum(kept))

    def new_bytes_per_second(self) -> float:
        new = float(sum(row.new_bytes for row in self.snapshots[1:]))
        return new / self._seconds if self._seconds > 0 else 0.0

    def growth(self) -> float:
        """The growth of the state in bytes per second; negative if it shrinks."""
        older, newer = self.halves()
        if not older.snapshots or self._seconds <= 0:
            return 0.0
        grown = newer.most(_total_bytes) - older.most(_total_bytes)
        return 2 * grown / self._seconds

    @property
    def _seconds(self) -> float:
        if not self.snapshots:
            return 0.0
        return self.snapshots[-1].created_at - self.snapshots[0].created_at


def _total_bytes(snapshot: Shipment) -> float:
    return float(snapshot.total_bytes)


def _measure_load(
    declared: StreamDeclaration,
    inputs: Input | None,
    shipments: _Shipments,
    *,
    capacity: float,
    batch: Level,
    commit_seconds: float,
) -> tuple[Load, Load]:
    """The load, and its change in a second; the capacity is never less than the rate."""
    rate = before = change = 0.0
    epoch_seconds = declared.epoch.seconds or declared.epoch.silence
    if inputs is not None and inputs.seconds > 0:
        rate = inputs.rows / inputs.seconds
        epoch_seconds = (inputs.seconds + inputs.seconds_before) / max(inputs.epochs - 1, 1)
        if inputs.seconds_before > 0:
            before = inputs.rows_before / inputs.seconds_before
            change = (rate - before) * 2 / (inputs.seconds + inputs.seconds_before)
    load = Load(
        rows_per_second=rate,
        capacity_rows_per_second=max(rate, capacity),
        state_bytes=shipments.state_bytes,
        epoch_seconds=epoch_seconds,
        batch_seconds=batch.mean,
        longest_batch_seconds=batch.most,
        commit_seconds=commit_seconds,
    )
    return load, Load(
        rows_per_second=change,
        capacity_rows_per_second=0.0,
        state_bytes=shipments.growth(),
        epoch_seconds=0.0,
    )


def _secondary_shares(
    tiers: Mapping[Tier, Mapping[SampleName, Level]],
) -> Iterable[tuple[Tier, tuple[float, float]]]:
    """CPU and memory of the secondary as shares of the primary's, for tiers in which both were measured."""
    for tier, levels in tiers.items():
        means = [levels.get(name, _NOTHING).mean for name in USE_SAMPLES]
        if all(mean > 0 for mean in means):
            cpu, memory, secondary_cpu, secondary_memory = means
            yield tier, (secondary_cpu / cpu, secondary_memory / memory)
