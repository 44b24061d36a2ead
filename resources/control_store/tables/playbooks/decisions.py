"""The decisions of the controller about each stream, and why: one row per new decision."""

from dataclasses import asdict

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import DecisionRow
from holdfast.resources.control_store.schema import decisions, streams

_OF_STREAM = decisions.c.stream == sa.bindparam("of_stream")
_HISTORY = (
    sa.select(decisions)
    .where(_OF_STREAM, decisions.c.at >= sa.bindparam("since_at"))
    .order_by(decisions.c.id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_LATEST = sa.select(decisions).where(_OF_STREAM).order_by(decisions.c.id.desc()).limit(1)


def _latest_of_all() -> sa.Select[tuple[object, ...]]:
    """Look up the newest decision of each stream by the index, instead of reading all decisions.

    SQLite keeps the order of an outer join, so the streams come first.
    """
    newer = decisions.alias("newer")
    newest = (
        sa.select(sa.func.max(newer.c.id)).where(newer.c.stream == streams.c.name).scalar_subquery()
    )
    return sa.select(decisions).select_from(streams.outerjoin(decisions, decisions.c.id == newest))


_LATEST_OF_ALL = _latest_of_all()


class Decisions:
    """The decisions of all streams, over time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, decision: DecisionRow) -> DecisionRow:
        """Store a decision; the store sets its id, and its time if it has none."""
        values = asdict(decision)
        del values["id"]
        values["at"] = decision.at or store_now()
        line = sa.insert(decisions).values(**values).returning(*decisions.c)
        return DecisionRow(**self._database.execute(line)[0])

    def latest(self, stream: str) -> DecisionRow | None:
        """The newest decision about a stream."""
        return self._database.find(DecisionRow, _LATEST, {"of_stream": stream})

    def latest_of_all(self) -> dict[str, DecisionRow]:
        """The newest decision about each stream, in one query."""
        rows = self._database.fetch(_LATEST_OF_ALL)
        return {row["stream"]: DecisionRow(**row) for row in rows if row["id"] is not None}

    def history(self, stream: str, *, since_at: float = 0.0, limit: int = 200) -> list[DecisionRow]:
        """The newest decisions about a stream, oldest first."""
        values = {"of_stream": stream, "since_at": since_at, "most": limit}
        return self._database.find_all(DecisionRow, _HISTORY, values)[::-1]
