"""Migrations of running streams to another declaration, one at a time per stream.

The row is the request. Every run that reads it takes the same steps, and one transaction at the end makes
the target the stream's declaration.
"""

from typing import Any

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import JsonObject, Migration
from holdfast.resources.control_store.schema import migrations, replicas, streams
from holdfast.resources.control_store.tables.streams import lock_stream, redeclare

_OF_STREAM = migrations.c.stream == sa.bindparam("of_stream")
_IS_OPEN = migrations.c.ended_at.is_(None)
_OPEN = sa.select(migrations).where(_OF_STREAM, _IS_OPEN)
_HISTORY = sa.select(migrations).where(_OF_STREAM).order_by(migrations.c.rollout)
_END = (
    sa.update(migrations)
    .where(_OF_STREAM, _IS_OPEN, migrations.c.rollout == sa.bindparam("number"))
    .values(
        ended_at=store_now(),
        done=sa.bindparam("is_done", type_=sa.Boolean),
        outcome=sa.bindparam("new_outcome"),
    )
    .returning(*migrations.c)
)
_SINCE = sa.func.coalesce(migrations.c.ended_at, migrations.c.begun_at)
_ROLLED_BACK = sa.select(replicas.c.id, _SINCE.label("at")).where(
    _OF_STREAM,
    replicas.c.stream == migrations.c.stream,
    replicas.c.rollout == migrations.c.rollout,
    sa.or_(
        migrations.c.done.is_(False),
        sa.and_(_IS_OPEN, migrations.c.rollout != sa.bindparam("beside", type_=sa.BigInteger)),
    ),
)
_RUN = (
    sa.update(streams)
    .where(streams.c.name == sa.bindparam("of_stream"))
    .values(rollout=sa.bindparam("number"))
)


class Migrations:
    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(
        self,
        *,
        stream: str,
        target: JsonObject,
        tier: str,
        protocol: str,
        within_seconds: float,
        may_differ: bool,
        why: str,
        run: str,
    ) -> Migration | None:
        """Request a migration; `None` if another one of the stream is under way."""
        number = sa.select(sa.func.coalesce(sa.func.max(migrations.c.rollout), 0) + 1).where(
            _OF_STREAM
        )
        values: dict[str, Any] = {
            "stream": stream,
            "rollout": number.scalar_subquery(),
            "target": target,
            "target_tier": tier,
            "protocol": protocol,
            "may_differ": may_differ,
            "begun_at": store_now(),
            "deadline_at": store_now() + within_seconds,
            "why": why,
            "run": run,
            "outcome": "",
        }
        insert = self._database.insert(migrations).values(**values).on_conflict_do_nothing()
        return self._database.change(
            Migration, insert.returning(*migrations.c), {"of_stream": stream}
        )

    def open(self, stream: str) -> Migration | None:
        """The migration that is under way."""
        return self._database.find(Migration, _OPEN, {"of_stream": stream})

    def finish(self, stream: str, number: int, outcome: str) -> None:
        """End a migration and make its target the stream's declaration, in one transaction."""
        ended = {"of_stream": stream, "number": number, "is_done": True, "new_outcome": outcome}
        with self._database.write() as connection:
            row = lock_stream(connection, stream)
            finished = connection.execute(_END, ended).mappings().one_or_none()
            if row is None or finished is None:
                return  # another run has ended it
            redeclare(connection, row, finished["target"], finished["target_tier"])
            connection.execute(_RUN, {"of_stream": stream, "number": number})

    def abandon(self, stream: str, number: int, outcome: str) -> None:
        """End a migration without its target; one that has ended before is not changed."""
        ended = {"of_stream": stream, "number": number, "is_done": False, "new_outcome": outcome}
        self._database.execute(_END, ended)

    def find_rolled_back(self, stream: str, *, beside: int | None = None) -> dict[str, float]:
        """The replicas of abandoned migrations, and since when: their state must not be used.

        For a replica that runs the migration `beside`, this includes the replicas of another one that is
        under way.
        """
        rows = self._database.fetch(_ROLLED_BACK, {"of_stream": stream, "beside": beside})
        return {row["id"]: row["at"] for row in rows}

    def history(self, stream: str) -> list[Migration]:
        """All migrations of a stream, oldest first."""
        return self._database.find_all(Migration, _HISTORY, {"of_stream": stream})
