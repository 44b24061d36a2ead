"""The days of the cost report: what the control store knows of a stream's day, counted.

A day that was counted is kept as a file, since measurements are not kept for ever. What the primary
used is the mean of its own day; what a secondary adds to that in each tier is the share that was
measured last.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from math import inf

from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.costs.prices import (
    ALL_COSTS,
    ASSUMED_SHARES,
    WEIGHTS,
    Usage,
    measured_overhead,
    weighted,
)
from holdfast.ft_policies.costs.report import CostRow, StreamDay, TierCosts, cost_row
from holdfast.ft_policies.costs.tier_spans import Asked, TierSpan, tier_spans
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.measurements import NETWORK_SAMPLES, StreamMeasurements, measure
from holdfast.observation.reports.files import read_report
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.recent import Level
from holdfast.resources.project import Project

REPORT = "cost_report"
CHANGES = 10_000
USE_SAMPLES = (SampleName.CPU_CORES, SampleName.RSS_BYTES, *NETWORK_SAMPLES)


def day_bounds(day: date) -> tuple[float, float]:
    """The first moment of a day (UTC), and that of the next."""
    midnight = datetime.combine(day, time(), UTC)
    return midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()


def read_costs(world: Project, day: date, streams: Sequence[str]) -> list[CostRow]:
    """A day as it was reported, or else counted now; of today, what there is so far."""
    since, until = day_bounds(day)
    if since > world.store.now():
        raise PermanentError(f"{day} has not begun", hint="days are UTC; ask for one until today")
    rows = read_reported_costs(world, day, streams)
    return count_costs(world, streams, since, until) if rows is None else rows


def read_reported_costs(world: Project, day: date, streams: Sequence[str]) -> list[CostRow] | None:
    """What was stored of a day; `None` if nothing was."""
    rows = read_report(world.config.home, REPORT, part=str(day))
    if rows is None:
        return None
    return [CostRow.of_cells(row) for row in rows if row["stream"] in streams]


def measured_since(world: Project) -> float:
    """From when on all measurements are still there."""
    return world.store.now() - world.config.deployment.samples.keep


def count_costs(
    world: Project, streams: Sequence[str], since: float, until: float
) -> list[CostRow]:
    """A row for each of these streams that ran."""
    until = min(until, world.store.now())
    spans = {name: read_tier_spans(world.store, name, until=until) for name in streams}
    ran = [name for name in streams if _seconds(spans[name], since, until) > 0]
    if not ran:
        return []
    kept_since = measured_since(world)
    if until < kept_since:
        raise _forgotten(since, kept_since)
    measured = measure(world.store, [world.config.stream(name) for name in ran])
    days = _Days(world, since, until)
    return [cost_row(days.of(measured[name], spans[name])) for name in ran]


def streams_measured_between(
    world: Project, streams: Sequence[str], since: float, until: float
) -> list[str]:
    """The streams whose primary measured anything then: each that ran has."""
    levels = world.store.recent.levels(
        (SampleName.CPU_CORES,), None, since_at=since, until_at=until
    )
    return [name for name in streams if name in levels]


def read_tier_spans(store: ControlStore, stream: str, *, until: float) -> list[TierSpan]:
    """The tiers of a stream from its beginning on."""
    asked = [
        Asked(tier=change.tier_to, at=change.at, reached_at=change.reached_at)
        for change in store.tiers.history(stream, limit=CHANGES)
    ]
    replicas = store.replicas.of(stream, live=False)
    lives = [(row.registered_at, inf if row.ended_at is None else row.ended_at) for row in replicas]
    return tier_spans(asked, lives, from_at=0.0, to_at=until)


def _seconds(spans: Sequence[TierSpan], since: float, until: float) -> float:
    """How much of the time between two moments they are."""
    return sum(max(min(span.to_at, until) - max(span.from_at, since), 0.0) for span in spans)


def _forgotten(since: float, kept_since: float) -> PermanentError:
    day, oldest = (datetime.fromtimestamp(at, UTC).date() for at in (since, kept_since))
    return PermanentError(
        f"what {day} cost cannot be counted any more: its measurements are gone",
        hint=f"only those since {oldest} are kept (`samples.keep`), and days of which the schedule "
        "daily_costs has made a report",
    )


class _Days:
    """A stretch of time of many streams; what can be read at once is."""

    def __init__(self, world: Project, since: float, until: float) -> None:
        self._world = world
        self._since, self._until = since, until
        lately = world.store.recent
        self._levels = lately.levels(USE_SAMPLES, None, since_at=since, until_at=until)
        self._primaries = lately.primaries(None, since_at=since)
        self._live_per_host = lately.live_per_host()

    def of(self, measured: StreamMeasurements, spans: Sequence[TierSpan]) -> StreamDay:
        declared = self._world.config.stream(measured.stream)
        return StreamDay(
            stream=declared.name,
            since=self._since,
            until=self._until,
            spans=spans,
            costs=self._costs(declared, measured, _seconds(spans, self._since, self._until)),
            objective_seconds=declared.objective.recovery_time,
            recoveries=[
                recovery.counted(declared.controller.count_detection)
                for recovery in measured.recoveries
                if self._since <= recovery.at < self._until
            ],
        )

    def _costs(
        self, declared: StreamDeclaration, measured: StreamMeasurements, ran: float
    ) -> TierCosts:
        store, primary = self._world.store, self._primary(declared.name)
        wanted = store.streams.intervals(declared.name)
        shipped = [
            row
            for row in store.snapshots.of(declared.name, available_only=False)
            if self._since <= row.created_at < self._until
        ]
        overhead = measured_overhead(
            primary,
            measured.shares_over(ASSUMED_SHARES),
            new_state_bytes_per_second=sum(row.new_bytes for row in shipped) / ran,
            sync_every=wanted.sync_every or declared.secondary.sync,
            snapshot_every=wanted.snapshot_every
            or declared.checkpoint.every
            or (ran / len(shipped) if shipped else inf),
            requests_per_snapshot=measured.requests_per_snapshot,
            requests_per_sync=measured.requests_per_sync,
            stored_bytes=measured.stored_bytes,
        )
        weights = WEIGHTS.get(declared.controller.weigh_by, ALL_COSTS)
        return TierCosts(
            overhead=overhead,
            units=weighted(overhead, primary, weights),
            prices=self._world.prices(declared),
        )

    def _primary(self, stream: str) -> Usage:
        """What the primary used; a host's traffic is shared evenly among its live replicas."""
        levels = self._levels.get(stream, {})
        hosts = [row.host for row in self._primaries.get(stream, [])]
        sharing = self._live_per_host.get(hosts[-1], 1) if hosts else 1
        traffic = sum(_mean(levels.get(name)) for name in NETWORK_SAMPLES)
        return Usage(
            cpu_cores=_mean(levels.get(SampleName.CPU_CORES)),
            memory_bytes=_mean(levels.get(SampleName.RSS_BYTES)),
            network_bytes_per_second=traffic / sharing,
            instances=1.0,
        )


def _mean(level: Level | None) -> float:
    return 0.0 if level is None else level.mean
