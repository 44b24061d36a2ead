"""The recent activity of one stream or of all of them, in one query each.

Every query begins with the streams and looks up what belongs to each by an index, so that it costs
what it finds, however long the histories are. The joins are outer ones for that: SQLite keeps their
order, where it would read all samples first; a stream without any is a row of NULLs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from holdfast.ft_policies.tiers import Tier
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import ReplicaState, Sample, Slot, SnapshotState
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import (
    epochs,
    replicas,
    sample_series,
    sample_values,
    snapshots,
    streams,
    tier_changes,
)
from holdfast.resources.control_store.tables.samples import SAMPLE_FIELDS
from holdfast.resources.control_store.tables.snapshots import IS_SUPERSEDED

EPOCHS = 40
SHIPPED_EPOCHS = 120
STEADY_SECONDS = 60.0
SETTLING_SECONDS = 30.0
NEVER = 1e15  # later than any sample

_STREAM = streams.c.name
_NAMES: sa.BindParameter[str] = sa.bindparam("names", expanding=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The last epochs in two halves: how many rows came in how many seconds."""

    stream: str
    epochs: int
    rows: int
    seconds: float
    rows_before: int
    seconds_before: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """A snapshot, as far as its costs go."""

    stream: str
    epoch: int
    total_bytes: int
    new_bytes: int
    requests: int
    seconds: float
    created_at: float
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A measurement over a period."""

    mean: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Primary:
    """A replica that has or had the primary's slot: when it was launched, and its last heartbeat."""

    stream: str
    replica: str
    host: str
    registered_at: float
    state: ReplicaState
    heartbeat_at: float | None
    ended_at: float | None


def _inputs() -> sa.Select[tuple[object, ...]]:
    heads = _heads(epochs)
    first = sa.case((heads.c.newest > EPOCHS, heads.c.newest - EPOCHS), else_=0)
    middle = heads.c.newest - EPOCHS // 2
    late, at = epochs.c.epoch > middle, epochs.c.decided_at
    old = sa.and_(epochs.c.epoch > first, epochs.c.epoch <= middle)
    middle_at = sa.func.max(sa.case((late, None), else_=at))
    began_at = sa.func.min(at)
    theirs = sa.and_(epochs.c.stream == heads.c.stream, epochs.c.epoch >= first)
    return (
        sa.select(
            epochs.c.stream,
            sa.func.count().label("epochs"),
            _sum(sa.case((late, epochs.c.rows), else_=0)).label("rows"),
            (sa.func.max(at) - sa.func.coalesce(middle_at, began_at)).label("seconds"),
            _sum(sa.case((old, epochs.c.rows), else_=0)).label("rows_before"),
            (sa.func.coalesce(middle_at, began_at) - began_at).label("seconds_before"),
        )
        .select_from(heads.outerjoin(epochs, theirs))
        .group_by(epochs.c.stream)
    )


def _sum(rows: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.cast(sa.func.sum(rows), sa.BigInteger)  # PostgreSQL makes a decimal number of it


def _heads(table: sa.Table) -> sa.CTE:
    """The newest epoch of each stream in a table that is indexed by stream and epoch."""
    newest = sa.select(sa.func.max(table.c.epoch)).where(table.c.stream == _STREAM)
    heads = sa.select(_STREAM.label("stream"), newest.scalar_subquery().label("newest"))
    return _restrict(heads).cte("heads").prefix_with("MATERIALIZED")  # looked up once a stream


def _restrict(query: sa.Select[Any]) -> sa.Select[Any]:
    only = sa.bindparam("only", type_=sa.Text)
    return query.where(sa.or_(only.is_(None), only == _STREAM))


def _shipments() -> sa.Select[tuple[object, ...]]:
    heads = _heads(snapshots)
    recent = sa.and_(
        snapshots.c.stream == heads.c.stream,
        snapshots.c.epoch >= heads.c.newest - SHIPPED_EPOCHS,
    )
    columns = (
        snapshots.c[name]
        for name in (
            "stream", "epoch", "total_bytes", "new_bytes", "requests", "seconds", "created_at"
        )
    )  # fmt: skip
    kept = sa.and_(snapshots.c.state == SnapshotState.AVAILABLE, ~IS_SUPERSEDED)
    return (
        sa.select(*columns, kept.label("kept"))
        .select_from(heads.outerjoin(snapshots, recent))
        .order_by(snapshots.c.stream, snapshots.c.epoch, snapshots.c.created_at)
    )


def _of_series(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.and_(sample_values.c.series == sample_series.c.id, *conditions)


def _series_of(stream: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.and_(sample_series.c.stream == stream, sample_series.c.name.in_(_NAMES))


def _series() -> sa.Select[tuple[object, ...]]:
    named = streams.outerjoin(sample_series, _series_of(_STREAM))
    return _restrict(
        sa.select(*SAMPLE_FIELDS)
        .select_from(named.outerjoin(sample_values, _of_series()))
        .order_by(sample_series.c.stream, sample_values.c.at, sample_values.c.series)
    )


def _levels() -> sa.Select[tuple[object, ...]]:
    at = sample_values.c.at
    recent = _of_series(at >= sa.bindparam("since_at"), at < sa.bindparam("until_at"))
    named = streams.outerjoin(sample_series, _series_of(_STREAM))
    return _restrict(
        sa.select(sample_series.c.stream, sample_series.c.name, *_level())
        .select_from(named.outerjoin(sample_values, recent))
        .group_by(sample_series.c.stream, sample_series.c.name)
    )


def _level() -> tuple[sa.ColumnElement[Any], ...]:
    value = sample_values.c.value
    return sa.func.avg(value).label("mean"), sa.func.max(value).label("most")


def _levels_of_tiers() -> sa.Select[tuple[object, ...]]:
    """The end of the last time that a stream had a tier for long enough to settle."""
    left_at = sa.func.lead(tier_changes.c.at).over(
        partition_by=tier_changes.c.stream, order_by=tier_changes.c.id
    )
    spans = _restrict(
        sa.select(
            tier_changes.c.stream,
            tier_changes.c.tier_to,
            tier_changes.c.reached_at,
            sa.func.coalesce(left_at, store_now()).label("left_at"),
        ).select_from(streams.outerjoin(tier_changes, tier_changes.c.stream == _STREAM))
    ).cte("spans")
    ends = (
        sa.select(spans.c.stream, spans.c.tier_to, sa.func.max(spans.c.left_at).label("left_at"))
        .where(spans.c.left_at - spans.c.reached_at >= SETTLING_SECONDS + STEADY_SECONDS)
        .group_by(spans.c.stream, spans.c.tier_to)
        .cte("ends")
    )
    within = sample_values.c.at.between(ends.c.left_at - STEADY_SECONDS, ends.c.left_at)
    named = ends.outerjoin(sample_series, _series_of(ends.c.stream))
    return (
        sa.select(sample_series.c.stream, ends.c.tier_to, sample_series.c.name, *_level())
        .select_from(named.outerjoin(sample_values, _of_series(within)))
        .group_by(sample_series.c.stream, ends.c.tier_to, sample_series.c.name)
    )


_INPUTS, _SHIPMENTS, _SERIES = _inputs(), _shipments(), _series()
_LEVELS, _LEVELS_OF_TIERS = _levels(), _levels_of_tiers()
_PRIMARIES = _restrict(
    sa.select(
        replicas.c.id.label("replica"),
        *(
            replicas.c[name]
            for name in ("stream", "host", "registered_at", "state", "heartbeat_at", "ended_at")
        ),
    )
    .select_from(
        streams.outerjoin(
            replicas,
            sa.and_(
                replicas.c.stream == _STREAM,
                replicas.c.slot == Slot.PRIMARY,
                sa.or_(
                    replicas.c.ended_at.is_(None),
                    replicas.c.ended_at >= sa.bindparam("since_at"),
                ),
            ),
        )
    )
    .order_by(replicas.c.stream, replicas.c.registered_at)
)
_LIVE_PER_HOST = (
    sa.select(replicas.c.host, sa.func.count().label("live"))
    .where(replicas.c.ended_at.is_(None))
    .group_by(replicas.c.host)
)


class RecentActivity:
    """Queries of recent rows; `stream` is one stream, or `None` for all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def inputs(self, stream: str | None) -> dict[str, Input]:
        """How much input the newest epochs have."""
        return {row["stream"]: Input(**row) for row in self._rows(_INPUTS, only=stream)}

    def shipments(self, stream: str | None) -> dict[str, list[Shipment]]:
        """The newest snapshots, oldest first."""
        return _by_stream([Shipment(**row) for row in self._rows(_SHIPMENTS, only=stream)])

    def series(self, names: Sequence[SampleName], stream: str | None) -> dict[str, list[Sample]]:
        """All samples of these names, oldest first: for what is measured once in a while."""
        rows = self._rows(_SERIES, only=stream, names=[str(name) for name in names])
        return _by_stream([Sample(**row) for row in rows if row["at"] is not None])

    def levels(
        self,
        names: Sequence[SampleName],
        stream: str | None,
        *,
        since_at: float,
        until_at: float = NEVER,
    ) -> dict[str, dict[SampleName, Level]]:
        """The samples of these names between two moments, by stream and name."""
        values = {"only": stream, "since_at": since_at, "until_at": until_at}
        levels: dict[str, dict[SampleName, Level]] = {}
        for row in self._level_rows(_LEVELS, names, **values):
            levels.setdefault(row["stream"], {})[row["name"]] = _as_level(row)
        return levels

    def levels_of_tiers(
        self, names: Sequence[SampleName], stream: str | None
    ) -> dict[str, dict[Tier, dict[SampleName, Level]]]:
        """The samples of these names in each tier that a stream has settled in, by stream and tier."""
        levels: dict[str, dict[Tier, dict[SampleName, Level]]] = {}
        for row in self._level_rows(_LEVELS_OF_TIERS, names, only=stream):
            of_tier = levels.setdefault(row["stream"], {}).setdefault(row["tier_to"], {})
            of_tier[row["name"]] = _as_level(row)
        return levels

    def primaries(self, stream: str | None, *, since_at: float) -> dict[str, list[Primary]]:
        """Those that live or ended since then, in the order of their launch."""
        rows = self._rows(_PRIMARIES, only=stream, since_at=since_at)
        return _by_stream([Primary(**row) for row in rows])

    def live_per_host(self) -> dict[str, int]:
        """How many live replicas share each host."""
        return {row["host"]: int(row["live"]) for row in self._database.fetch(_LIVE_PER_HOST)}

    def _level_rows(
        self, query: sa.Select[Any], names: Sequence[SampleName], **values: Any
    ) -> Iterator[sa.RowMapping]:
        """The rows of series that have samples in the period."""
        rows = self._rows(query, names=[str(name) for name in names], **values)
        return (row for row in rows if row["mean"] is not None)

    def _rows(self, query: sa.Select[Any], **values: Any) -> Iterator[sa.RowMapping]:
        rows = self._database.fetch(query, values)
        return (row for row in rows if row["stream"] is not None)


def _as_level(row: sa.RowMapping) -> Level:
    return Level(mean=float(row["mean"]), most=float(row["most"]))


class _OfStream(Protocol):
    @property
    def stream(self) -> str: ...


_Row = TypeVar("_Row", bound=_OfStream)


def _by_stream(rows: Sequence[_Row]) -> dict[str, list[_Row]]:
    grouped: dict[str, list[_Row]] = {}
    for row in rows:
        grouped.setdefault(row.stream, []).append(row)
    return grouped
