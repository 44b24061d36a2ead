"""Declared streams, and whether people want them to run."""

import sqlalchemy as sa

from ft_policies.errors import PermanentError
from resources.control.database import Database
from resources.control.records import DesiredState, JsonObject, StreamRow
from resources.control.schema import streams
from resources.control.sql import store_now

_GET = sa.select(streams).where(streams.c.name == sa.bindparam("name"))
_ALL = sa.select(streams).order_by(streams.c.name)
_DESIRE = (
    sa.update(streams)
    .where(streams.c.name == sa.bindparam("stream"))
    .values(desired=sa.bindparam("desired"), changed_at=store_now())
    .returning(streams.c.name)
)


class Streams:
    """The table of declared streams."""

    def __init__(self, database: Database) -> None:
        self._database = database
        insert = database.insert(streams)
        self._declare = insert.values(
            name=sa.bindparam("name"),
            declaration=sa.bindparam("declaration"),
            tier=sa.bindparam("tier"),
            desired=DesiredState.STOPPED,
            declared_at=store_now(),
            changed_at=store_now(),
        )
        self._declare = self._declare.on_conflict_do_update(
            index_elements=[streams.c.name],
            set_={
                "declaration": insert.excluded.declaration,
                "tier": insert.excluded.tier,
                "changed_at": store_now(),
            },
        )

    def declare(self, name: str, declaration: JsonObject, tier: str) -> StreamRow:
        """Make the declaration known; a new stream is stopped, a known one stays as desired."""
        with self._database.write() as connection:
            known = connection.execute(_GET, {"name": name}).mappings().one_or_none()
            if known and known["declaration"] == declaration and known["tier"] == tier:
                return StreamRow(**known)
            values = {"name": name, "declaration": declaration, "tier": tier}
            connection.execute(self._declare, values)
            return StreamRow(**connection.execute(_GET, {"name": name}).mappings().one())

    def get(self, name: str) -> StreamRow | None:
        """The stream of this name."""
        rows = self._database.fetch(_GET, {"name": name})
        return StreamRow(**rows[0]) if rows else None

    def all(self) -> list[StreamRow]:
        """All streams, by name."""
        return [StreamRow(**row) for row in self._database.fetch(_ALL)]

    def desire(self, name: str, desired: DesiredState) -> None:
        """Say whether the stream should run."""
        if not self._database.execute(_DESIRE, {"stream": name, "desired": desired}):
            raise PermanentError(f"no stream {name!r}", hint="declare it first")
