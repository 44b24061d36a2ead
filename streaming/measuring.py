"""What the control store knows of streams, as the models take it: histories, load, use.

All streams are measured with the same few queries as one. What nobody has measured yet is missing
from a history, or 0; only the time until a failure is noticed is known before: it was declared.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from configs.stream import StreamDeclaration
from ft_policies.costs.prices import TierShares, Usage
from ft_policies.prediction.estimators import Observation
from ft_policies.prediction.model import StepTimings
from ft_policies.prediction.steps import TIERS, Load
from ft_policies.tiers import Tier
from resources.control.lately import Input, Level, Primary, Shipment
from resources.control.records import Sample
from resources.control.store import ControlStore
from streaming.step_history import LONGEST_LOSS_SECONDS, STEP_SAMPLES, Recovery, StepHistory

USE_SAMPLES = ("cpu_cores", "rss_bytes", "secondary_cpu_cores", "secondary_rss_bytes")
NETWORK_SAMPLES = ("host_network_sent_bytes_per_second", "host_network_received_bytes_per_second")
SYNC_SAMPLES = ("sync_seconds", "sync_requests")
CAPACITY_SAMPLE = "processed_rows_per_second"
LATELY_SECONDS = 60.0
LONGER_SECONDS = 600.0  # for what is not measured every few seconds

_NOTHING = Level(mean=0.0, most=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMeasurements:
    """One stream at one time, in floats; `growth` is how the load changes in a second."""

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
        """The load that is to be expected if it goes on to change as it does now."""
        now, growth = self.load, self.growth
        rows = max(float(now.rows_per_second + growth.rows_per_second * seconds), 0.0)
        return Load(
            rows_per_second=rows,
            capacity_rows_per_second=max(rows, float(now.capacity_rows_per_second)),
            state_bytes=max(float(now.state_bytes + growth.state_bytes * seconds), 0.0),
            epoch_seconds=now.epoch_seconds,
        )

    def shares_over(self, known: TierShares) -> TierShares:
        """What is known of the tiers in general, with what was measured of this stream."""
        for tier, (cpu, memory) in self.shares.items():
            network = float(known.network[TIERS.index(tier)])
            known = known.measured(tier, cpu=cpu, memory=memory, network=network)
        return known


def measure(
    store: ControlStore, declared: Sequence[StreamDeclaration]
) -> dict[str, StreamMeasurements]:
    """Measure these streams; those that were never started are measured, too, as what is declared."""
    only = declared[0].name if len(declared) == 1 else None
    at, lately = store.now(), store.lately
    samples = lately.series(STEP_SAMPLES, only)
    facts = _Facts(
        at=at,
        inputs=lately.inputs(only),
        shipments=lately.shipments(only),
        samples=samples,
        levels=lately.levels((*USE_SAMPLES, *NETWORK_SAMPLES), only, since_at=at - LATELY_SECONDS),
        seldom=lately.levels((*SYNC_SAMPLES, CAPACITY_SAMPLE), only, since_at=at - LONGER_SECONDS),
        tiers=lately.levels_of_tiers(USE_SAMPLES, only),
        primaries=lately.primaries(only, since_at=_told_since(samples, at)),
        live_per_host=lately.live_per_host(),
    )
    return {one.name: facts.of(one) for one in declared}


def _told_since(samples: Mapping[str, Sequence[Sample]], at: float) -> float:
    """The oldest primary that says anything: lost just before the start that the first sample tells of."""
    return min((found[0].at for found in samples.values()), default=at) - 2 * LONGEST_LOSS_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """All that was read, by stream."""

    at: float
    inputs: Mapping[str, Input]
    shipments: Mapping[str, Sequence[Shipment]]
    samples: Mapping[str, Sequence[Sample]]
    levels: Mapping[str, Mapping[str, Level]]
    seldom: Mapping[str, Mapping[str, Level]]
    tiers: Mapping[str, Mapping[Tier, Mapping[str, Level]]]
    primaries: Mapping[str, Sequence[Primary]]
    live_per_host: Mapping[str, int]

    def of(self, declared: StreamDeclaration) -> StreamMeasurements:
        name = declared.name
        shipped = _Shipped(self.shipments.get(name, ()))
        primaries = self.primaries.get(name, ())
        history = StepHistory(
            self.samples.get(name, ()), primaries, heartbeat=declared.supervision.heartbeat
        )
        seldom = self.seldom.get(name, {})
        load, growth = _load(declared, self.inputs.get(name), shipped, seldom, history)
        return StreamMeasurements(
            stream=name,
            at=self.at,
            step_timings=StepTimings(
                steps=history.steps(lease=declared.supervision.lease), writes=shipped.writes()
            ),
            recoveries=history.recoveries(),
            load=load,
            growth=growth,
            primary=self._primary(name, primaries),
            shares=dict(_shares(self.tiers.get(name, {}))),
            ship_seconds=shipped.most(lambda one: one.seconds),
            sync_seconds=seldom.get("sync_seconds", _NOTHING).most,
            snapshot_age_seconds=shipped.age_at(self.at),
            new_state_bytes_per_second=shipped.new_bytes_per_second(),
            requests_per_snapshot=shipped.requests(),
            requests_per_sync=seldom.get("sync_requests", _NOTHING).mean,
            stored_bytes=shipped.stored_bytes(),
        )

    def _primary(self, name: str, primaries: Sequence[Primary]) -> Usage:
        """A host's traffic is nobody's own: the live replicas there are taken to share it evenly."""
        levels = self.levels.get(name, {})
        hosts = [one.host for one in primaries if one.ended_at is None]
        sharing = self.live_per_host.get(hosts[-1], 1) if hosts else 1
        traffic = sum(levels.get(one, _NOTHING).mean for one in NETWORK_SAMPLES)
        return Usage(
            cpu_cores=levels.get("cpu_cores", _NOTHING).mean,
            memory_bytes=levels.get("rss_bytes", _NOTHING).mean,
            network_bytes_per_second=traffic / sharing,
            instances=1.0,
        )


@dataclass(frozen=True, slots=True)
class _Shipped:
    """The newest snapshots of a stream, oldest first."""

    snapshots: Sequence[Shipment]

    def writes(self) -> tuple[Observation, ...]:
        """What was written, and how long it took."""
        return tuple(
            Observation(seconds=one.seconds, size=float(one.new_bytes), at=one.created_at)
            for one in self.snapshots
        )

    def requests(self) -> float:
        """How many one takes, on average; 0 if there is none."""
        requests = [one.requests for one in self.snapshots]
        return sum(requests) / len(requests) if requests else 0.0

    def most(self, value: Callable[[Shipment], float]) -> float:
        """The largest value; 0 if there is none."""
        return max((value(one) for one in self.snapshots), default=0.0)

    def age_at(self, at: float) -> float:
        """How old the newest one is; 0 if there is none."""
        return max(at - self.snapshots[-1].created_at, 0.0) if self.snapshots else 0.0

    def halves(self) -> tuple["_Shipped", "_Shipped"]:
        """The older ones and the newer ones; a single one is new."""
        middle = len(self.snapshots) // 2
        return _Shipped(self.snapshots[:middle]), _Shipped(self.snapshots[middle:])

    @property
    def state_bytes(self) -> float:
        """What a restore reads at most: Spark compacts its state now and then, so sizes go up and down."""
        return self.halves()[1].most(_total_bytes)

    def stored_bytes(self) -> float:
        """About what they take in the object store: the whole newest one, and what others add."""
        kept = [one.new_bytes for one in self.snapshots[:-1] if one.kept]
        return self.state_bytes + float(sum(kept))

    def new_bytes_per_second(self) -> float:
        """What is new of the state in a second."""
        new = float(sum(one.new_bytes for one in self.snapshots[1:]))
        return new / self._seconds if self._seconds > 0 else 0.0

    def growth(self) -> float:
        """By how many bytes the state grows in a second; less than none if it shrinks."""
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


def _load(
    declared: StreamDeclaration,
    seen: Input | None,
    shipped: _Shipped,
    seldom: Mapping[str, Level],
    history: StepHistory,
) -> tuple[Load, Load]:
    """The load, and how it changes in a second."""
    rate = before = change = 0.0
    epoch_seconds = declared.epoch.seconds or declared.epoch.silence
    if seen is not None and seen.seconds > 0:
        rate = seen.rows / seen.seconds
        epoch_seconds = (seen.seconds + seen.seconds_before) / max(seen.epochs - 1, 1)
        if seen.seconds_before > 0:
            before = seen.rows_before / seen.seconds_before
            change = (rate - before) * 2 / (seen.seconds + seen.seconds_before)
    capacity = max(rate, seldom.get(CAPACITY_SAMPLE, _NOTHING).most, history.fastest_replay())
    load = Load(
        rows_per_second=rate,
        capacity_rows_per_second=capacity,
        state_bytes=shipped.state_bytes,
        epoch_seconds=epoch_seconds,
    )
    return load, Load(
        rows_per_second=change,
        capacity_rows_per_second=0.0,
        state_bytes=shipped.growth(),
        epoch_seconds=0.0,
    )


def _shares(
    tiers: Mapping[Tier, Mapping[str, Level]],
) -> Iterable[tuple[Tier, tuple[float, float]]]:
    """The tiers in which both replicas were measured."""
    for tier, levels in tiers.items():
        if all(name in levels and levels[name].mean > 0 for name in USE_SAMPLES):
            cpu = levels["secondary_cpu_cores"].mean / levels["cpu_cores"].mean
            yield tier, (cpu, levels["secondary_rss_bytes"].mean / levels["rss_bytes"].mean)
