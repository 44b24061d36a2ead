"""Rollouts: a declaration on its way to the replicas of a running stream, one at a time.

The row is the wish. Every run that reads it takes the same steps towards it, and one transaction at the end
makes the declaration the stream's.
"""

from typing import Any

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import JsonObject, Rollout
from holdfast.resources.control_store.schema import replicas, rollouts, streams
from holdfast.resources.control_store.tables.streams import lock_stream, redeclare

_OF_STREAM = rollouts.c.stream == sa.bindparam("of_stream")
_IS_OPEN = rollouts.c.ended_at.is_(None)
_OPEN = sa.select(rollouts).where(_OF_STREAM, _IS_OPEN)
_HISTORY = sa.select(rollouts).where(_OF_STREAM).order_by(rollouts.c.rollout)
_END = (
    sa.update(rollouts)
    .where(_OF_STREAM, _IS_OPEN, rollouts.c.rollout == sa.bindparam("number"))
    .values(
        ended_at=store_now(),
        done=sa.bindparam("is_done", type_=sa.Boolean),
        outcome=sa.bindparam("new_outcome"),
    )
    .returning(*rollouts.c)
)
_SINCE = sa.func.coalesce(rollouts.c.ended_at, rollouts.c.begun_at)
_ROLLED_BACK = sa.select(replicas.c.id, _SINCE.label("at")).where(
    _OF_STREAM,
    replicas.c.stream == rollouts.c.stream,
    replicas.c.rollout == rollouts.c.rollout,
    sa.or_(
        rollouts.c.done.is_(False),
        sa.and_(_IS_OPEN, rollouts.c.rollout != sa.bindparam("beside", type_=sa.BigInteger)),
    ),
)
_RUN = (
    sa.update(streams)
    .where(streams.c.name == sa.bindparam("of_stream"))
    .values(rollout=sa.bindparam("number"))
)


class Rollouts:
    """The table of rollouts."""

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
    ) -> Rollout | None:
        """Want another declaration for the replicas; `None` if one is on its way already."""
        number = sa.select(sa.func.coalesce(sa.func.max(rollouts.c.rollout), 0) + 1).where(
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
        insert = self._database.insert(rollouts).values(**values).on_conflict_do_nothing()
        return self._database.change(Rollout, insert.returning(*rollouts.c), {"of_stream": stream})

    def open(self, stream: str) -> Rollout | None:
        """The one that is under way."""
        return self._database.find(Rollout, _OPEN, {"of_stream": stream})

    def finish(self, stream: str, rollout: int, outcome: str) -> None:
        """Make its declaration the stream's, in one transaction with its end."""
        ended = {"of_stream": stream, "number": rollout, "is_done": True, "new_outcome": outcome}
        with self._database.write() as connection:
            known = lock_stream(connection, stream)
            row = connection.execute(_END, ended).mappings().one_or_none()
            if known is None or row is None:
                return  # another run has ended it
            redeclare(connection, known, row["target"], row["target_tier"])
            connection.execute(_RUN, {"of_stream": stream, "number": rollout})

    def abandon(self, stream: str, rollout: int, outcome: str) -> None:
        """Give it up; one that has ended stays as it ended."""
        ended = {"of_stream": stream, "number": rollout, "is_done": False, "new_outcome": outcome}
        self._database.execute(_END, ended)

    def rolled_back(self, stream: str, *, beside: int | None = None) -> dict[str, float]:
        """The replicas of rollouts that were given up, and since when: their state is not to be used.

        For a replica that runs the rollout `beside`, those of another that is under way are among them.
        """
        found = self._database.fetch(_ROLLED_BACK, {"of_stream": stream, "beside": beside})
        return {row["id"]: row["at"] for row in found}

    def history(self, stream: str) -> list[Rollout]:
        """All there were, oldest first."""
        return self._database.find_all(Rollout, _HISTORY, {"of_stream": stream})
