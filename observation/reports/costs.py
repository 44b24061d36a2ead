"""The rows of the cost report: the costs of a stream's day, counted from the control store.

A counted day is stored as a file, since measurements expire. The usage of the primary is the mean of
that day; the usage of a secondary in each tier is the share of it that was measured last.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from math import inf
from pathlib import Path

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.costs.prices import (
    ALL_COSTS,
    ASSUMED_SHARES,
    WEIGHTS,
    Usage,
    compute_overhead,
    weigh_cost,
)
from holdfast.ft_policies.costs.report import CostRow, StreamDay, TierCosts, cost_row
from holdfast.ft_policies.costs.tier_spans import TierRequest, TierSpan, count_switches, tier_spans
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.timings import Timings
from holdfast.observation.measurements import NETWORK_SAMPLES, StreamMeasurements, measure
from holdfast.observation.outages import read_outages
from holdfast.observation.reports.files import read_report, report_parts
from holdfast.resources.birth import read_birth
from holdfast.resources.control_store.records import ReplicaRow, Slot
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.recent import Level
from holdfast.resources.project import Project

REPORT = "cost_report"
CHANGES = 10_000
USE_SAMPLES = (SampleName.CPU_CORES, SampleName.RSS_BYTES, *NETWORK_SAMPLES)


def day_bounds(day: date) -> tuple[float, float]:
    """The start of a day (UTC), and of the next day."""
    midnight = datetime.combine(day, time(), UTC)
    return midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()


def first_day(home: Path, today: date) -> date:
    """The day on which the project was opened first, or of its oldest stored report."""
    stored = [date.fromisoformat(day) for day in report_parts(home, REPORT) if day[:1].isdigit()]
    return min([read_birth(home) or today, *stored])


def read_costs(project: Project, day: date, streams: Sequence[str]) -> list[CostRow]:
    """Read the stored costs of a day, or count them now; for today, the costs so far."""
    since, until = day_bounds(day)
    if since > project.store.now():
        raise PermanentError(
            f"{day} has not begun", hint="choose today or an earlier day; days are UTC"
        )
    rows = read_reported_costs(project, day, streams)
    return count_costs(project, streams, since, until) if rows is None else rows


def read_reported_costs(
    project: Project, day: date, streams: Sequence[str]
) -> list[CostRow] | None:
    """Read the stored costs of a day; `None` if there is no report of it."""
    rows = read_report(project.config.home, REPORT, part=str(day))
    if rows is None:
        return None
    return [CostRow.of_cells(row) for row in rows if row["stream"] in streams]


def find_retention_start(project: Project) -> float:
    """The time since which all measurements are kept."""
    return project.store.now() - project.config.deployment.samples.keep


def count_costs(
    project: Project, streams: Sequence[str], since: float, until: float
) -> list[CostRow]:
    """Count the costs between two times: a row for each of these streams that ran."""
    until = min(until, project.store.now())
    spans = {
        name: read_tier_spans(project.store, name, project.timings(name), until=until)
        for name in streams
    }
    ran = [name for name in streams if _seconds(spans[name], since, until) > 0]
    if not ran:
        return []
    kept_since = find_retention_start(project)
    if until < kept_since:
        raise _expired_error(since, kept_since)
    measured = measure(project.store, [project.config.stream(name) for name in ran])
    days = _Days(project, since, until)
    return [cost_row(days.of(measured[name], spans[name])) for name in ran]


def streams_measured_between(
    project: Project, streams: Sequence[str], since: float, until: float
) -> list[str]:
    """The streams with samples of their primary in this time: every stream that ran has some."""
    levels = project.store.recent.levels(
        (SampleName.CPU_CORES,), None, since_at=since, until_at=until
    )
    return [name for name in streams if name in levels]


def read_tier_spans(
    store: ControlStore, stream: str, timings: Timings, *, until: float
) -> list[TierSpan]:
    """The tiers of a stream over time, since its first start."""
    requests = _requests(store, stream)
    replicas = store.replicas.of(stream, live=False)
    lives = [(row.registered_at, _lived_until(row, timings)) for row in replicas]
    return tier_spans(requests, lives, from_at=0.0, to_at=until)


def _lived_until(row: ReplicaRow, timings: Timings) -> float:
    """When a replica had ended, or had sent no sign of life for its lease: it may be fenced much later."""
    is_primary = row.slot is Slot.PRIMARY
    lease = timings.lease_seconds if is_primary else timings.secondary_lease_seconds
    silent_at = (row.heartbeat_at or row.registered_at) + lease
    return min(silent_at, inf if row.ended_at is None else row.ended_at)


def _requests(store: ControlStore, stream: str) -> list[TierRequest]:
    return [
        TierRequest(tier=change.tier_to, at=change.at, reached_at=change.reached_at)
        for change in store.tiers.history(stream, limit=CHANGES)
    ]


def _seconds(spans: Sequence[TierSpan], since: float, until: float) -> float:
    """The seconds that the spans cover between two times."""
    return sum(max(min(span.to_at, until) - max(span.from_at, since), 0.0) for span in spans)


def _expired_error(since: float, kept_since: float) -> PermanentError:
    day, oldest = (datetime.fromtimestamp(at, UTC).date() for at in (since, kept_since))
    return PermanentError(
        f"the costs of {day} cannot be counted: its measurements have expired",
        hint=f"choose a day since {oldest} (`samples.keep`), or turn the schedule `daily_costs` on, which "
        "stores a report of each day",
    )


class _Days:
    """The measurements of all streams between two times, read in a few queries."""

    def __init__(self, project: Project, since: float, until: float) -> None:
        self._project = project
        self._since, self._until = since, until
        recent = project.store.recent
        self._levels = recent.levels(USE_SAMPLES, None, since_at=since, until_at=until)
        self._primaries = recent.primaries(None, since_at=since)
        self._outages = read_outages(project.store, since_at=since)
        self._live_per_host = recent.live_per_host()

    def of(self, measured: StreamMeasurements, spans: Sequence[TierSpan]) -> StreamDay:
        declared = self._project.config.stream(measured.stream)
        return StreamDay(
            stream=declared.name,
            since=self._since,
            until=self._until,
            spans=spans,
            switches=count_switches(
                _requests(self._project.store, declared.name), since=self._since, until=self._until
            ),
            costs=self._costs(declared, measured, _seconds(spans, self._since, self._until)),
            objective_seconds=declared.objective.recovery_time,
            recoveries=[
                outage.count_seconds(declared.controller.count_detection)
                for outage in self._outages.get(declared.name, ())
                if outage.at < self._until
            ],
        )

    def _costs(
        self, declared: StreamDeclaration, measured: StreamMeasurements, ran: float
    ) -> TierCosts:
        store, primary = self._project.store, self._primary(declared.name)
        intervals = store.streams.intervals(declared.name)
        shipped = [
            row
            for row in store.snapshots.of(declared.name, available_only=False)
            if self._since <= row.created_at < self._until
        ]
        overhead = compute_overhead(
            primary,
            measured.shares_over(ASSUMED_SHARES),
            new_state_bytes_per_second=sum(row.new_bytes for row in shipped) / ran,
            sync_every=intervals.sync_every or declared.secondary.sync,
            snapshot_every=intervals.snapshot_every
            or declared.checkpoint.every
            or (ran / len(shipped) if shipped else inf),
            requests_per_snapshot=measured.requests_per_snapshot,
            requests_per_sync=measured.requests_per_sync,
            stored_bytes=measured.stored_bytes,
        )
        weights = WEIGHTS.get(declared.controller.weigh_by, ALL_COSTS)
        return TierCosts(
            overhead=overhead,
            units=weigh_cost(overhead, primary, weights),
            prices=self._project.prices(declared),
        )

    def _primary(self, stream: str) -> Usage:
        """The usage of the primary; the traffic of its host is split evenly among the live replicas."""
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
