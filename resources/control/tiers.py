"""The tier that people want of a stream now, and how it came to be wanted.

The row in `streams` is what counts; the history is written in the same transaction, so its newest
line is always the tier that the stream should have.
"""

from typing import Any

import sqlalchemy as sa

from ft_policies.errors import PermanentError
from resources.control.database import Database
from resources.control.records import TierChange
from resources.control.schema import streams, tier_changes
from resources.control.sql import store_now

_OF_STREAM = tier_changes.c.stream == sa.bindparam("of_stream")
_LOCK = (
    sa.select(streams.c.tier).where(streams.c.name == sa.bindparam("of_stream")).with_for_update()
)
_SET = (
    sa.update(streams)
    .where(streams.c.name == sa.bindparam("of_stream"))
    .values(tier=sa.bindparam("tier_to"), changed_at=store_now())
)
_NEWEST = sa.select(sa.func.max(tier_changes.c.id)).where(_OF_STREAM).scalar_subquery()
_REACHED = (
    sa.update(tier_changes)
    .where(
        tier_changes.c.id == _NEWEST,
        tier_changes.c.tier_to == sa.bindparam("tier_is"),
        tier_changes.c.reached_at.is_(None),
    )
    .values(reached_at=store_now())
    .returning(tier_changes.c.id)
)
_HISTORY = (
    sa.select(tier_changes)
    .where(_OF_STREAM)
    .order_by(tier_changes.c.id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)


class Tiers:
    """The tiers of all streams, over time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def desire(self, stream: str, tier: str, *, why: str, run: str) -> TierChange | None:
        """Say which tier the stream should have from now on; `None` if it was so before."""
        with self._database.write() as connection:
            before = connection.execute(_LOCK, {"of_stream": stream}).scalar_one_or_none()
            if before is None:
                raise PermanentError(f"no stream {stream!r}", hint="declare it first")
            if before == tier:
                return None
            connection.execute(_SET, {"of_stream": stream, "tier_to": tier})
            return noted(
                connection, stream=stream, tier_from=before, tier_to=tier, why=why, run=run
            )

    def reached(self, stream: str, *, tier: str) -> bool:
        """Note that the replicas now have a tier; false if there is nothing to note.

        Another one may have been asked for since the look: then this one is not noted.
        """
        return bool(self._database.execute(_REACHED, {"of_stream": stream, "tier_is": tier}))

    def history(self, stream: str, *, limit: int = 200) -> list[TierChange]:
        """The newest changes of a stream, oldest first."""
        rows = self._database.fetch(_HISTORY, {"of_stream": stream, "most": limit})
        return [TierChange(**row) for row in reversed(rows)]


def noted(connection: sa.Connection, **change: Any) -> TierChange:
    """Write one line of history, in the transaction that changes the stream's row."""
    line = sa.insert(tier_changes).values(**change, at=store_now()).returning(*tier_changes.c)
    return TierChange(**connection.execute(line).mappings().one())
