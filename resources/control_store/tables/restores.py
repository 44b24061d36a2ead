"""Restores in place and forks.

Each restore ends one history of a stream after an epoch and begins the next. Its row is the wish, written
before anything is touched, so that the next run finishes what a dead one has left. From the moment that it
is begun, no replica of an older history can enter anything into the ledger. A fork is a new stream that
begins with the epochs of another, as they were decided and committed.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import DesiredState, RestoreRow
from holdfast.resources.control_store.schema import (
    epochs,
    leases,
    ledger,
    ledger_copies,
    ledger_superseded,
    restores,
)
from holdfast.resources.control_store.tables.epochs import copy_gaps, shorten_gaps
from holdfast.resources.control_store.tables.streams import (
    is_stopped_locked,
    lock_stream,
    set_desired,
)

_OF_STREAM = restores.c.stream == sa.bindparam("of_stream")
_IS_IT = sa.and_(_OF_STREAM, restores.c.history == sa.bindparam("number"))
_OF = sa.select(restores).where(_OF_STREAM).order_by(restores.c.history.desc())
_NEWEST = _OF.limit(1)
_WANT_INSTEAD = (
    sa.update(restores)
    .where(_IS_IT)
    .values(
        epoch=sa.bindparam("new_epoch"),
        snapshot=sa.bindparam("new_snapshot", type_=sa.Text),
        why=sa.bindparam("new_why"),
        run=sa.bindparam("new_run"),
        was_running=sa.bindparam("new_was_running"),
        asked_at=store_now(),
    )
)
_BEGIN = sa.update(restores).where(_IS_IT).values(begun_at=store_now())
_FINISH = (
    sa.update(restores)
    .where(_IS_IT, restores.c.begun_at.is_not(None), restores.c.finished_at.is_(None))
    .values(finished_at=store_now())
    .returning(restores.c.was_running)
)
_FENCE = (
    sa.update(leases)
    .where(leases.c.stream == sa.bindparam("of_stream"))
    .values(holder=None, token=leases.c.token + 1, expires_at=store_now())
)
_ENTRY = ("epoch", "replica", "token", "rows", "digest", "committed_at")
_KEEP = sa.insert(ledger_superseded).from_select(
    ["stream", "history", *_ENTRY],
    sa.select(
        ledger.c.stream,
        sa.bindparam("number", type_=sa.BigInteger),
        *(ledger.c[name] for name in _ENTRY),
    ).where(
        ledger.c.stream == sa.bindparam("of_stream"), ledger.c.epoch > sa.bindparam("last_epoch")
    ),
)
_FORGET = sa.delete(ledger_superseded).where(
    sa.exists().where(
        restores.c.stream == ledger_superseded.c.stream,
        restores.c.history == ledger_superseded.c.history,
        restores.c.finished_at < sa.bindparam("before"),
    )
)


def _later_in(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(
        table.c.stream == sa.bindparam("of_stream"), table.c.epoch > sa.bindparam("last_epoch")
    )


_DROP_COPIES, _DROP_ENTRIES = _later_in(ledger_copies), _later_in(ledger)


def current_history(stream: sa.ColumnElement[str]) -> sa.ScalarSelect[int]:
    """The newest history that has begun; 0 if the stream was never restored in place."""
    newest = sa.func.coalesce(sa.func.max(restores.c.history), 0)
    begun = sa.and_(restores.c.stream == stream, restores.c.begun_at.is_not(None))
    return sa.select(newest).where(begun).scalar_subquery()


_CURRENT = sa.select(current_history(sa.bindparam("of_stream", type_=sa.Text)).label("current"))


class Restores:
    """The table of restores in place of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def current_history(self, stream: str) -> int:
        """The history that a replica that starts now belongs to."""
        return int(self._database.fetch(_CURRENT, {"of_stream": stream})[0]["current"])

    def of(self, stream: str) -> list[RestoreRow]:
        """All restores of a stream, newest first."""
        return self._database.find_all(RestoreRow, _OF, {"of_stream": stream})

    def newest(self, stream: str) -> RestoreRow | None:
        """The last restore that was asked for."""
        return self._database.find(RestoreRow, _NEWEST, {"of_stream": stream})

    def want(
        self, stream: str, *, epoch: int, snapshot: str | None, why: str, run: str
    ) -> RestoreRow:
        """Write the wish down, in place of one that has not begun; one that has is finished first."""
        with self._database.write() as connection:
            row = lock_stream(connection, stream)
            known = _newest(connection, stream)
            if known is not None and known.half_done:
                return _resumed(known, epoch)
            facts = {"epoch": epoch, "snapshot": snapshot, "why": why, "run": run}
            running = row is not None and row.desired is DesiredState.RUNNING
            if known is not None and not known.begun:
                _want_instead(connection, known, running=running, facts=facts)
            else:
                number = 1 if known is None else known.history + 1
                values = {**facts, "stream": stream, "history": number, "was_running": running}
                insert = sa.insert(restores).values(**values, asked_at=store_now())
                connection.execute(insert)
            wanted = _newest(connection, stream)
        assert wanted is not None, "it was written just now"  # noqa: S101
        return wanted

    def stop_for(self, wanted: RestoreRow) -> bool:
        """Stop the stream, unless the restore has finished or given way to another.

        Two runs may perform it: the slower must not stop what the faster has started again.
        """
        with self._database.write() as connection:
            lock_stream(connection, wanted.stream)  # a run that finishes it waits, or has finished
            known = _newest(connection, wanted.stream)
            if known is None or known.finished or not known.is_to_the_point_of(wanted):
                return False
            set_desired(connection, wanted.stream, DesiredState.STOPPED)
        return True

    def begin(self, wanted: RestoreRow) -> int | None:
        """End the older history: its later entries count no more, nor do those it may still bring.

        The value is how many entries that were; `None` if a replica lives or is asked for, or another
        point is asked for by now, and so nothing was changed.
        """
        key = {"of_stream": wanted.stream, "number": wanted.history}
        with self._database.write() as connection:
            stopped = is_stopped_locked(self._database, connection, wanted.stream)
            known = _newest(connection, wanted.stream)
            if not stopped or known is None:
                return None
            if known.begun or known.history != wanted.history:
                return 0
            if not known.is_to_the_point_of(wanted):
                return None
            later = {"of_stream": known.stream, "last_epoch": known.epoch}
            connection.execute(_KEEP, {**later, "number": known.history})
            connection.execute(_DROP_COPIES, later)
            moved = connection.execute(_DROP_ENTRIES, later).rowcount
            shorten_gaps(connection, known.stream, known.epoch)
            connection.execute(_FENCE, {"of_stream": known.stream})
            connection.execute(_BEGIN, key)
        return moved

    def finish(self, begun: RestoreRow) -> None:
        """Note that state and output are back, and start the stream if it ran before."""
        key = {"of_stream": begun.stream, "number": begun.history}
        with self._database.write() as connection:
            lock_stream(connection, begun.stream)  # the stream's row first, as others do
            was_running = connection.execute(_FINISH, key).scalar()
            if was_running:
                set_desired(connection, begun.stream, DesiredState.RUNNING)

    def forget_entries(self, *, before: float) -> int:
        """Delete the entries that were superseded by restores finished before this time."""
        with self._database.write() as connection:
            return connection.execute(_FORGET, {"before": before}).rowcount


def _newest(connection: sa.Connection, stream: str) -> RestoreRow | None:
    row = connection.execute(_NEWEST, {"of_stream": stream}).mappings().first()
    return None if row is None else RestoreRow(**row)


def _resumed(known: RestoreRow, epoch: int) -> RestoreRow:
    if known.epoch == epoch:
        return known
    raise PermanentError(
        f"{known.stream} is being restored to epoch {known.epoch}, and is half done",
        hint=f"`holdfast restore {known.stream} --epoch {known.epoch}` finishes that; then restore again",
    )


def _want_instead(
    connection: sa.Connection, known: RestoreRow, *, running: bool, facts: dict[str, Any]
) -> None:
    values = {f"new_{name}": value for name, value in facts.items()}
    # The run that wrote the first wish may have stopped the stream for it already.
    was_running = known.was_running or running
    key = {"of_stream": known.stream, "number": known.history}
    connection.execute(_WANT_INSTEAD, {**key, **values, "new_was_running": was_running})


class Forks:
    """Copies within the epoch log (with its gaps) and the ledger; what is copied from is only read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._copies = [self._copy_in(table) for table in (epochs, ledger)]

    def copy(self, stream: str, *, into: str, through_epoch: int) -> int:
        """Give a new stream the epochs of another up to one; how many entries of the ledger came new."""
        values = {"of_stream": stream, "into_stream": into, "last_epoch": through_epoch}
        with self._database.write() as connection:
            copied = [connection.execute(copy, values).all() for copy in self._copies]
            copy_gaps(connection, stream, into=into, through_epoch=through_epoch)
        return len(copied[-1])

    def _copy_in(self, table: sa.Table) -> Executable:
        names = [column.name for column in table.c if column.name != "stream"]
        rows = sa.select(
            sa.bindparam("into_stream", type_=sa.Text), *(table.c[name] for name in names)
        ).where(
            table.c.stream == sa.bindparam("of_stream"),
            table.c.epoch <= sa.bindparam("last_epoch"),
        )
        copy = self._database.insert(table).from_select(["stream", *names], rows)
        return copy.on_conflict_do_nothing().returning(table.c.epoch)
