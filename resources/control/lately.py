"""What streams have done of late: of one, or of all of them, in one query each.

Every query begins with the streams and looks up what belongs to each by an index, so that it costs
what it finds, however long the histories are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from ft_policies.tiers import Tier
from resources.control.database import Database
from resources.control.records import ReplicaState, Sample, Slot, SnapshotState
from resources.control.schema import epochs, replicas, samples, snapshots, streams, tier_changes
from resources.control.sql import store_now

EPOCHS = 40
SHIPPED_EPOCHS = 120
STEADY_SECONDS = 60.0
SETTLING_SECONDS = 30.0

_STREAM = streams.c.name
_NAMES = sa.bindparam("names", expanding=True)


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
    """A measurement over a while."""

    mean: float
    most: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Primary:
    """A replica that has or had the primary's slot: when it was launched, and when last heard of."""

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
    middle_at = sa.func.max(sa.case((late, None), else_=at))
    began_at = sa.func.min(at)
    return (
        sa.select(
            heads.c.stream,
            sa.func.count().label("epochs"),
            sa.func.sum(sa.case((late, epochs.c.rows), else_=0)).label("rows"),
            (sa.func.max(at) - sa.func.coalesce(middle_at, began_at)).label("seconds"),
            sa.func.sum(
                sa.case((sa.or_(late, epochs.c.epoch == first), 0), else_=epochs.c.rows)
            ).label("rows_before"),
            (sa.func.coalesce(middle_at, began_at) - began_at).label("seconds_before"),
        )
        .join(epochs, sa.and_(epochs.c.stream == heads.c.stream, epochs.c.epoch >= first))
        .group_by(heads.c.stream)
    )


def _heads(table: sa.Table) -> sa.CTE:
    """The newest epoch of each stream in a table that is indexed by stream and epoch."""
    newest = sa.select(sa.func.max(table.c.epoch)).where(table.c.stream == _STREAM)
    return _chosen(
        sa.select(_STREAM.label("stream"), newest.scalar_subquery().label("newest"))
    ).cte("heads")


def _chosen(query: sa.Select[Any]) -> sa.Select[Any]:
    """Of one stream, or of all."""
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
    kept = snapshots.c.state == SnapshotState.AVAILABLE
    return (
        sa.select(*columns, kept.label("kept"))
        .join(heads, recent)
        .order_by(snapshots.c.stream, snapshots.c.epoch, snapshots.c.created_at)
    )


def _series() -> sa.Select[tuple[object, ...]]:
    fields = (column for column in samples.c if column.name != "id")
    return _chosen(
        sa.select(*fields)
        .select_from(streams.join(samples, samples.c.stream == _STREAM))
        .where(samples.c.name.in_(_NAMES))
        .order_by(samples.c.stream, samples.c.at, samples.c.id)
    )


def _levels() -> sa.Select[tuple[object, ...]]:
    return _chosen(
        sa.select(samples.c.stream, samples.c.name, *_level())
        .select_from(streams.join(samples, samples.c.stream == _STREAM))
        .where(samples.c.name.in_(_NAMES), samples.c.at >= sa.bindparam("since_at"))
        .group_by(samples.c.stream, samples.c.name)
    )


def _level() -> tuple[sa.ColumnElement[Any], ...]:
    value = samples.c.value
    return (
        sa.func.avg(value).label("mean"),
        sa.func.max(value).label("most"),
        sa.func.count().label("count"),
    )


def _levels_of_tiers() -> sa.Select[tuple[object, ...]]:
    """The end of the last time that a stream had a tier for long enough to settle."""
    left_at = sa.func.lead(tier_changes.c.at).over(
        partition_by=tier_changes.c.stream, order_by=tier_changes.c.id
    )
    spans = _chosen(
        sa.select(
            tier_changes.c.stream,
            tier_changes.c.tier_to,
            tier_changes.c.reached_at,
            sa.func.coalesce(left_at, store_now()).label("left_at"),
        ).select_from(streams.join(tier_changes, tier_changes.c.stream == _STREAM))
    ).cte("spans")
    ends = (
        sa.select(spans.c.stream, spans.c.tier_to, sa.func.max(spans.c.left_at).label("left_at"))
        .where(spans.c.left_at - spans.c.reached_at >= SETTLING_SECONDS + STEADY_SECONDS)
        .group_by(spans.c.stream, spans.c.tier_to)
        .cte("ends")
    )
    within = sa.and_(
        samples.c.stream == ends.c.stream,
        samples.c.name.in_(_NAMES),
        samples.c.at.between(ends.c.left_at - STEADY_SECONDS, ends.c.left_at),
    )
    return (
        sa.select(ends.c.stream, ends.c.tier_to, samples.c.name, *_level())
        .select_from(ends.join(samples, within))
        .group_by(ends.c.stream, ends.c.tier_to, samples.c.name)
    )


_INPUTS, _SHIPMENTS, _SERIES = _inputs(), _shipments(), _series()
_LEVELS, _LEVELS_OF_TIERS = _levels(), _levels_of_tiers()
_PRIMARIES = _chosen(
    sa.select(
        replicas.c.id.label("replica"),
        *(
            replicas.c[name]
            for name in ("stream", "host", "registered_at", "state", "heartbeat_at", "ended_at")
        ),
    )
    .select_from(streams.join(replicas, replicas.c.stream == _STREAM))
    .where(replicas.c.slot == Slot.PRIMARY)
    .order_by(replicas.c.stream, replicas.c.registered_at)
)
_LIVE_PER_HOST = (
    sa.select(replicas.c.host, sa.func.count().label("live"))
    .where(replicas.c.ended_at.is_(None))
    .group_by(replicas.c.host)
)


class Lately:
    """Looks at the recent past; `stream` is the only one to look at, or `None` for all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def inputs(self, stream: str | None) -> dict[str, Input]:
        """How much input the newest epochs have."""
        rows = self._database.fetch(_INPUTS, {"only": stream})
        return {row["stream"]: Input(**row) for row in rows}

    def shipments(self, stream: str | None) -> dict[str, list[Shipment]]:
        """The newest snapshots, oldest first."""
        rows = self._database.fetch(_SHIPMENTS, {"only": stream})
        return _by_stream([Shipment(**row) for row in rows])

    def series(self, names: Sequence[str], stream: str | None) -> dict[str, list[Sample]]:
        """All samples of these names, oldest first: for what is measured once in a while."""
        rows = self._database.fetch(_SERIES, {"only": stream, "names": list(names)})
        return _by_stream([Sample(**row) for row in rows])

    def levels(
        self, names: Sequence[str], stream: str | None, *, since_at: float
    ) -> dict[str, dict[str, Level]]:
        """The samples of these names since then, by stream and name."""
        values = {"only": stream, "names": list(names), "since_at": since_at}
        found: dict[str, dict[str, Level]] = {}
        for row in self._database.fetch(_LEVELS, values):
            found.setdefault(row["stream"], {})[row["name"]] = _as_level(row)
        return found

    def levels_of_tiers(
        self, names: Sequence[str], stream: str | None
    ) -> dict[str, dict[Tier, dict[str, Level]]]:
        """The samples of these names in each tier that a stream has settled in, by stream and tier."""
        found: dict[str, dict[Tier, dict[str, Level]]] = {}
        values = {"only": stream, "names": list(names)}
        for row in self._database.fetch(_LEVELS_OF_TIERS, values):
            of_tier = found.setdefault(row["stream"], {}).setdefault(row["tier_to"], {})
            of_tier[row["name"]] = _as_level(row)
        return found

    def primaries(self, stream: str | None) -> dict[str, list[Primary]]:
        """All primaries there ever were, in the order of their launch."""
        rows = self._database.fetch(_PRIMARIES, {"only": stream})
        return _by_stream([Primary(**row) for row in rows])

    def live_per_host(self) -> dict[str, int]:
        """How many live replicas share each host."""
        return {row["host"]: int(row["live"]) for row in self._database.fetch(_LIVE_PER_HOST)}


def _as_level(row: Mapping[str, Any]) -> Level:
    return Level(mean=float(row["mean"]), most=float(row["most"]), count=int(row["count"]))


class _OfStream(Protocol):
    @property
    def stream(self) -> str: ...


_Found = TypeVar("_Found", bound=_OfStream)


def _by_stream(found: Sequence[_Found]) -> dict[str, list[_Found]]:
    grouped: dict[str, list[_Found]] = {}
    for one in found:
        grouped.setdefault(one.stream, []).append(one)
    return grouped
