"""Samples: the time series of measurements of replicas and playbooks."""

from collections.abc import Sequence
from dataclasses import asdict

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import samples

_PRUNED_AT_ONCE = 5_000
_FIELDS = [column for column in samples.c if column.name != "id"]
_OF_STREAM = samples.c.stream == sa.bindparam("of_stream")
_AT = sa.bindparam("given_at", type_=sa.Double)
_WRITE = sa.insert(samples).values(
    stream=sa.bindparam("of_stream"),
    replica=sa.bindparam("of_replica"),
    name=sa.bindparam("of_name"),
    value=sa.bindparam("new_value"),
    epoch=sa.bindparam("of_epoch"),
    at=sa.case((_AT > 0, _AT), else_=store_now()),
)
_SERIES = (
    sa.select(*_FIELDS)
    .where(
        _OF_STREAM,
        samples.c.name == sa.bindparam("of_name"),
        samples.c.at >= sa.bindparam("since_at"),
    )
    .order_by(samples.c.at.desc(), samples.c.id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_PRUNE = (
    sa.delete(samples)
    .where(
        samples.c.id.in_(
            sa.select(samples.c.id)
            .where(samples.c.at < sa.bindparam("before_at"))
            .order_by(samples.c.at)
            .limit(_PRUNED_AT_ONCE)
        )
    )
    .returning(samples.c.id)
)


def _latest(*, of_replica: bool) -> sa.Select[tuple[object, ...]]:
    """Hop from name to name along the index, and look up the newest of each: no scan."""
    names = (
        sa.select(sa.func.min(samples.c.name).label("name")).where(_OF_STREAM).cte(recursive=True)
    )
    following = (
        sa.select(sa.func.min(samples.c.name))
        .where(_OF_STREAM, samples.c.name > names.c.name)
        .scalar_subquery()
    )
    names = names.union_all(sa.select(following).where(names.c.name.is_not(None)))
    newer = samples.alias("newer")
    theirs = newer.c.replica == sa.bindparam("of_replica") if of_replica else sa.true()
    newest = (
        sa.select(newer.c.id)
        .where(newer.c.stream == sa.bindparam("of_stream"), newer.c.name == names.c.name, theirs)
        .order_by(newer.c.at.desc(), newer.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return sa.select(*_FIELDS).join(names, samples.c.id == newest)


_LATEST = _latest(of_replica=False)
_LATEST_OF_REPLICA = _latest(of_replica=True)


class Samples:
    """The measurements of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, batch: Sequence[Sample]) -> None:
        """Write many samples at once."""
        if not batch:
            return
        names = {"stream": "of_stream", "replica": "of_replica", "name": "of_name"}
        names |= {"value": "new_value", "epoch": "of_epoch", "at": "given_at"}
        rows = [
            {names[key]: value for key, value in asdict(sample).items()}
            | {"of_name": str(sample.name)}
            for sample in batch
        ]
        with self._database.write(durable=False) as connection:
            connection.execute(_WRITE, rows)

    def series(
        self, stream: str, name: SampleName, *, since_at: float = 0.0, limit: int = 10_000
    ) -> list[Sample]:
        """The newest samples of one name, oldest first."""
        values = {"of_stream": stream, "of_name": str(name), "since_at": since_at, "most": limit}
        return self._database.find_all(Sample, _SERIES, values)[::-1]

    def latest(self, stream: str, *, replica: str | None = None) -> dict[SampleName, Sample]:
        """The newest sample of each name, of all replicas or of one."""
        query = _LATEST if replica is None else _LATEST_OF_REPLICA
        rows = self._database.fetch(query, {"of_stream": stream, "of_replica": replica})
        return {row["name"]: Sample(**row) for row in rows}

    def prune(self, before_at: float) -> int:
        """Delete samples older than this, in portions so that no other writer waits long for the lock."""
        pruned = 0
        while True:
            portion = len(self._database.execute(_PRUNE, {"before_at": before_at}, durable=False))
            pruned += portion
            if portion < _PRUNED_AT_ONCE:
                return pruned
