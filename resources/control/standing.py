"""Whether a stream stands still: a restore and a gap change what its replicas rely on."""

import sqlalchemy as sa

from resources.control.database import Database
from resources.control.records import DesiredState
from resources.control.schema import replicas, streams

_LOCKED_DESIRED = (
    sa.select(streams.c.desired)
    .where(streams.c.name == sa.bindparam("of_stream"))
    .with_for_update()
)
_LIVE = sa.select(replicas.c.id).where(
    replicas.c.stream == sa.bindparam("of_stream"), replicas.c.ended_at.is_(None)
)


def desired_of(connection: sa.Connection, stream: str) -> DesiredState | None:
    """What people want of a stream; nobody changes that before the transaction ends."""
    desired: DesiredState | None = connection.execute(
        _LOCKED_DESIRED, {"of_stream": stream}
    ).scalar()
    return desired


def stands_still(database: Database, connection: sa.Connection, stream: str) -> bool:
    """Whether no replica lives or is wanted; nothing can be entered or started before the transaction ends."""
    desired = desired_of(connection, stream)  # the stream's row first, as takeovers do
    if not database.is_sqlite:  # whose transactions wait for each other anyway
        # An entry that is on its way was allowed by what is about to change: wait for it.
        connection.exec_driver_sql("LOCK TABLE ledger, replicas IN SHARE ROW EXCLUSIVE MODE")
    lives = connection.execute(_LIVE, {"of_stream": stream}).first() is not None
    return not lives and desired is not DesiredState.RUNNING
