"""Samples: the time series of measurements of replicas and playbooks.

A stream has a dozen or two of them every few seconds, so they are most rows of the control store. A series (stream,
replica and name) has a number, and a value only that number, its time and the epoch: about 30 bytes. The values
are ordered by series and time, so reading and pruning touch nothing else.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningDelete

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import replicas, sample_series, sample_values

PRUNED_AT_ONCE = 5_000
SAMPLE_FIELDS = [
    sample_series.c.stream,
    sample_series.c.replica,
    sample_series.c.name,
    sample_values.c.value,
    sample_values.c.epoch,
    sample_values.c.at,
]
_STREAM = sa.bindparam("of_stream", type_=sa.Text)
_REPLICA = sa.bindparam("of_replica", type_=sa.Text)
_NAME = sa.bindparam("of_name", type_=sa.Text)
_SINCE = sa.bindparam("since_at", type_=sa.Double)
_MOST = sa.bindparam("most", type_=sa.Integer)
_OF_SERIES = sample_values.c.series == sample_series.c.id


def _write(database: Database) -> sa.Insert:
    """Write a value to a series that exists; the later of two values at one time stays."""
    given = sa.bindparam("given_at", type_=sa.Double)
    insert = database.insert(sample_values).from_select(
        ["series", "at", "value", "epoch"],
        sa.select(
            sample_series.c.id,
            sa.case((given > 0, given), else_=store_now()),
            sa.bindparam("new_value", type_=sa.Double),
            sa.bindparam("of_epoch", type_=sa.BigInteger),
        ).where(
            sample_series.c.stream == _STREAM,
            sample_series.c.name == _NAME,
            sample_series.c.replica == _REPLICA,
        ),
    )
    upsert = insert.on_conflict_do_update(
        index_elements=["series", "at"],
        set_={name: insert.excluded[name] for name in ("value", "epoch")},
    )
    return upsert.execution_options(preserve_rowcount=True)


def _series() -> sa.Select[tuple[object, ...]]:
    """The newest values of a name: of each replica no more than are asked for are read."""
    value = sample_values.alias("newest")
    first_at = (
        sa.select(value.c.at)
        .where(value.c.series == sample_series.c.id, value.c.at >= _SINCE)
        .order_by(value.c.at.desc())
        .offset(_MOST)
        .limit(1)
        .scalar_subquery()
    )
    return (
        sa.select(*SAMPLE_FIELDS)
        .select_from(sample_series.join(sample_values, _OF_SERIES))
        .where(
            sample_series.c.stream == _STREAM,
            sample_series.c.name == _NAME,
            sample_values.c.at >= sa.func.coalesce(first_at, _SINCE),
        )
        .order_by(sample_values.c.at.desc(), sample_values.c.series.desc())
        .limit(_MOST)
    )


def _latest(*conditions: sa.ColumnElement[bool]) -> sa.Select[tuple[object, ...]]:
    """The newest value of each series, oldest first: one look at the end of each, no scan."""
    value = sample_values.alias("newest")
    newest_at = (
        sa.select(sa.func.max(value.c.at))
        .where(value.c.series == sample_series.c.id)
        .scalar_subquery()
    )
    newest = sa.and_(_OF_SERIES, sample_values.c.at == newest_at)
    return (
        sa.select(*SAMPLE_FIELDS)
        .select_from(sample_series.join(sample_values, newest))
        .where(sample_series.c.stream == _STREAM, *conditions)
        .order_by(sample_values.c.at, sample_values.c.series)
    )


def _prune() -> ReturningDelete[Any]:
    """Delete a portion of the old values, from one series on."""
    old = sample_values.alias("old")
    oldest = (
        sa.select(old.c.series, old.c.at)
        .select_from(sample_series.join(old, old.c.series == sample_series.c.id))
        .where(
            sample_series.c.id >= sa.bindparam("from_series", type_=sa.BigInteger),
            old.c.at < sa.bindparam("before_at", type_=sa.Double),
        )
        .order_by(sample_series.c.id, old.c.at)
        .limit(PRUNED_AT_ONCE)
    )
    key = sa.tuple_(sample_values.c.series, sample_values.c.at)
    return sa.delete(sample_values).where(key.in_(oldest)).returning(sample_values.c.series)


_SERIES, _PRUNE = _series(), _prune()
_LATEST, _LATEST_OF_REPLICA = _latest(), _latest(sample_series.c.replica == _REPLICA)
# Each replica has series of its own, so they would grow with the number of replicas there have ever been.
_PRUNE_SERIES = sa.delete(sample_series).where(
    sample_series.c.replica != "",
    ~sa.exists().where(sample_values.c.series == sample_series.c.id),
    ~sa.exists().where(replicas.c.id == sample_series.c.replica, replicas.c.ended_at.is_(None)),
)

_SeriesKey = tuple[str, str, str]


class _SeriesMissingError(Exception):
    """Series that this process had seen were pruned."""


class Samples:
    """The measurements of all streams; a series has one value at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._write = _write(database)
        self._add = database.insert(sample_series).on_conflict_do_nothing()
        self._added: set[_SeriesKey] = set()

    def write(self, batch: Sequence[Sample]) -> None:
        if not batch:
            return
        try:
            self._write_batch(batch)
        except _SeriesMissingError:
            self._added.clear()
            self._write_batch(batch)

    def _write_batch(self, batch: Sequence[Sample]) -> None:
        keys = dict.fromkeys((sample.stream, str(sample.name), sample.replica) for sample in batch)
        rows = [
            {
                "of_stream": sample.stream,
                "of_name": str(sample.name),
                "of_replica": sample.replica,
                "new_value": sample.value,
                "of_epoch": sample.epoch,
                "given_at": sample.at,
            }
            for sample in batch
        ]
        with self._database.write(durable=False) as connection:
            if new := [key for key in keys if key not in self._added]:
                names = ("stream", "name", "replica")
                added = [dict(zip(names, key, strict=True)) for key in new]
                connection.execute(self._add, added)
            if connection.execute(self._write, rows).rowcount < len(rows):
                raise _SeriesMissingError
        self._added.update(keys)

    def series(
        self, stream: str, name: SampleName, *, since_at: float = 0.0, limit: int = 10_000
    ) -> list[Sample]:
        """The newest samples of one name, oldest first."""
        values = {"of_stream": stream, "of_name": str(name), "since_at": since_at, "most": limit}
        return self._database.find_all(Sample, _SERIES, values)[::-1]

    def latest(self, stream: str, *, replica: str | None = None) -> dict[SampleName, Sample]:
        """The newest sample of each name, of all replicas or of one."""
        query = _LATEST if replica is None else _LATEST_OF_REPLICA
        values = {"of_stream": stream} | ({} if replica is None else {"of_replica": replica})
        return {row["name"]: Sample(**row) for row in self._database.fetch(query, values)}

    def prune(self, before_at: float) -> int:
        """Delete samples older than this, in portions so that no other writer waits long for the lock.

        A series without samples goes, too, once its replica has ended.
        """
        pruned = first = 0
        while True:
            values = {"from_series": first, "before_at": before_at}
            with self._database.write_portion(durable=False) as connection:
                portion = connection.execute(_PRUNE, values).mappings().all()
            pruned += len(portion)
            if len(portion) < PRUNED_AT_ONCE:
                break
            first = max(row["series"] for row in portion)
        self._database.execute(_PRUNE_SERIES, durable=False)
        return pruned
