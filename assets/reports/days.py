"""The days of the cost report: what the control store knows of a stream's day, counted.

A day that was counted is kept as a file, since measurements are not kept for ever. What the primary
used is the mean of its own day; what a secondary adds to that in each tier is the share that was
measured last.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from math import inf

from assets.reports.storing import stored
from configs.stream import StreamDeclaration
from ft_policies.cost_report import CostRow, StreamDay, TierCosts, cost_row
from ft_policies.costs import (
    ALL_COSTS,
    ASSUMED_SHARES,
    EC2,
    Usage,
    measured_overhead,
    weighted,
)
from ft_policies.tier_spans import Asked, TierSpan, tier_spans
from resources.control.lately import Level
from resources.control.store import ControlStore
from streaming.measuring import NETWORK_SAMPLES, Measured, measure
from streaming.world import World

REPORT = "cost_report"
CHANGES = 10_000
USE_SAMPLES = ("cpu_cores", "rss_bytes", *NETWORK_SAMPLES)


def bounds(day: date) -> tuple[float, float]:
    """The first moment of a day (UTC), and that of the next."""
    midnight = datetime.combine(day, time(), UTC)
    return midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()


def costs_of(world: World, day: date, streams: Sequence[str]) -> list[CostRow]:
    """A day as it was reported, or else counted now; of today, what there is so far."""
    rows = stored(world.project.home, REPORT, part=str(day))
    if rows is None:
        return counted(world, streams, *bounds(day))
    return [CostRow.of_cells(row) for row in rows if row["stream"] in streams]


def counted(world: World, streams: Sequence[str], since: float, until: float) -> list[CostRow]:
    """A row for each of these streams that ran."""
    until = min(until, world.store.now())
    ran = ran_between(world, streams, since, until)
    measured = measure(world.store, [world.project.stream(name) for name in ran]) if ran else {}
    days = _Days(world, since, until)
    return [cost_row(days.of(measured[name])) for name in ran]


def ran_between(world: World, streams: Sequence[str], since: float, until: float) -> list[str]:
    """Those that had a replica then."""
    return [
        name
        for name in streams
        if any(start < until and since < end for start, end in _lives(world.store, name))
    ]


def measured_between(world: World, streams: Sequence[str], since: float, until: float) -> list[str]:
    """Those whose primary measured anything then: whoever runs does."""
    found = world.store.lately.levels(("cpu_cores",), None, since_at=since, until_at=until)
    return [name for name in streams if name in found]


def spans_of(
    store: ControlStore, stream: str, *, since: float = 0.0, until: float
) -> list[TierSpan]:
    """The tiers of a stream between two moments, or from its beginning on."""
    asked = [
        Asked(tier=one.tier_to, at=one.at, reached_at=one.reached_at)
        for one in store.tiers.history(stream, limit=CHANGES)
    ]
    return tier_spans(asked, _lives(store, stream), from_at=since, to_at=until)


def _lives(store: ControlStore, stream: str) -> list[tuple[float, float]]:
    rows = store.replicas.of(stream, live=False)
    return [(row.registered_at, inf if row.ended_at is None else row.ended_at) for row in rows]


class _Days:
    """A stretch of time of many streams; what can be read at once is."""

    def __init__(self, world: World, since: float, until: float) -> None:
        self._world = world
        self._since, self._until = since, until
        lately = world.store.lately
        self._levels = lately.levels(USE_SAMPLES, None, since_at=since, until_at=until)
        self._primaries = lately.primaries(None)
        self._live_per_host = lately.live_per_host()

    def of(self, measured: Measured) -> StreamDay:
        declared = self._world.project.stream(measured.stream)
        return StreamDay(
            stream=declared.name,
            since=self._since,
            until=self._until,
            spans=spans_of(self._world.store, declared.name, until=self._until),
            costs=self._costs(declared, measured),
            objective_seconds=declared.objective.recovery_time,
            recoveries=[
                one.seconds for one in measured.recoveries if self._since <= one.at < self._until
            ],
        )

    def _costs(self, declared: StreamDeclaration, measured: Measured) -> TierCosts:
        store, primary = self._world.store, self._primary(declared.name)
        wanted = store.streams.intervals(declared.name)
        shipped = [
            row
            for row in store.snapshots.of(declared.name, available_only=False)
            if self._since <= row.created_at < self._until
        ]
        spans = spans_of(store, declared.name, since=self._since, until=self._until)
        ran = sum(span.seconds for span in spans)
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
        weights = EC2 if declared.controller.weigh_by == "ec2" else ALL_COSTS
        return TierCosts(
            overhead=overhead,
            units=weighted(overhead, primary, weights),
            prices=self._world.prices(declared),
        )

    def _primary(self, stream: str) -> Usage:
        """A host's traffic is nobody's own: its live replicas are taken to share it evenly."""
        levels = self._levels.get(stream, {})
        hosts = [one.host for one in self._primaries.get(stream, [])]
        sharing = self._live_per_host.get(hosts[-1], 1) if hosts else 1
        traffic = sum(_mean(levels.get(name)) for name in NETWORK_SAMPLES)
        return Usage(
            cpu_cores=_mean(levels.get("cpu_cores")),
            memory_bytes=_mean(levels.get("rss_bytes")),
            network_bytes_per_second=traffic / sharing,
            instances=1.0,
        )


def _mean(level: Level | None) -> float:
    return 0.0 if level is None else level.mean
