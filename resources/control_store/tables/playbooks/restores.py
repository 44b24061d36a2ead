"""Restores in place and forks.

Each restore ends one history of a stream after an epoch and begins the next. Its row is the request, written
before anything is changed, so that the next run finishes what an interrupted one has left. Once it is closed, no
replica of an older history can add entries to the ledger. A fork is a new stream that
begins with the epochs of another, as they were decided and committed.

What has many rows is written in portions, each a transaction of its own, so that no other stream waits long for a
lock (`Database.write_portion`). A run that dies in between has left a restore that is closed and not begun, or a fork without a declaration:
the next run continues.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.epoch_records import FORGOTTEN
from holdfast.resources.control_store.records import DesiredState, LedgerEntry, RestoreRow
from holdfast.resources.control_store.schema import (
    epoch_files,
    epoch_floors,
    epochs,
    ledger,
    ledger_copies,
    ledger_superseded,
    restores,
)
from holdfast.resources.control_store.tables.epochs.log import copy_gaps, shorten_gaps
from holdfast.resources.control_store.tables.leases import fence_lease
from holdfast.resources.control_store.tables.streams import (
    is_stopped_locked,
    lock_additions,
    lock_stream,
    set_desired,
)

PORTION = 2_000
"""The rows of one transaction."""

_OF_STREAM = restores.c.stream == sa.bindparam("of_stream")
_IS_IT = sa.and_(_OF_STREAM, restores.c.history == sa.bindparam("number"))
_OF = sa.select(restores).where(_OF_STREAM).order_by(restores.c.history.desc())
_NEWEST = _OF.limit(1)
_REPLACE = (
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
_CLOSE = sa.update(restores).where(_IS_IT).values(closed_at=store_now())
_BEGIN = sa.update(restores).where(_IS_IT).values(begun_at=store_now())
_FINISH = (
    sa.update(restores)
    .where(_IS_IT, restores.c.begun_at.is_not(None), restores.c.finished_at.is_(None))
    .values(finished_at=store_now())
    .returning(restores.c.was_running)
)
_ENTRY = ("epoch", "replica", "token", "rows", "digest", "committed_at")
_KEEP = sa.insert(ledger_superseded).from_select(
    ["stream", "history", *_ENTRY],
    sa.select(
        ledger.c.stream,
        sa.bindparam("number", type_=sa.BigInteger),
        *(ledger.c[name] for name in _ENTRY),
    ).where(
        ledger.c.stream == sa.bindparam("of_stream"),
        ledger.c.epoch.between(sa.bindparam("first"), sa.bindparam("last")),
    ),
)
_SET_ASIDE = (
    sa.select(ledger_superseded.c.stream, *(ledger_superseded.c[name] for name in _ENTRY))
    .where(
        ledger_superseded.c.stream == sa.bindparam("of_stream"),
        ledger_superseded.c.history == sa.bindparam("number"),
    )
    .order_by(ledger_superseded.c.epoch)
)
_FIRST_LATER = sa.select(sa.func.min(ledger.c.epoch)).where(
    ledger.c.stream == sa.bindparam("of_stream"), ledger.c.epoch > sa.bindparam("last_epoch")
)


def _drop_from(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(
        table.c.stream == sa.bindparam("of_stream"),
        table.c.epoch.between(sa.bindparam("first"), sa.bindparam("last")),
    )


_DROP_COPIES, _DROP_ENTRIES = _drop_from(ledger_copies), _drop_from(ledger)


def current_history(stream: sa.ColumnElement[str]) -> sa.ScalarSelect[int]:
    """The newest history; 0 if the stream was never restored in place."""
    newest = sa.func.coalesce(sa.func.max(restores.c.history), 0)
    closed = sa.and_(restores.c.stream == stream, restores.c.closed_at.is_not(None))
    return sa.select(newest).where(closed).scalar_subquery()


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
        """The last restore that was requested."""
        return self._database.find(RestoreRow, _NEWEST, {"of_stream": stream})

    def request(
        self, stream: str, *, epoch: int, snapshot: str | None, why: str, run: str
    ) -> RestoreRow:
        """Record a restore; it replaces one that has not begun. `PermanentError` if another one is half done."""
        with self._database.write() as connection:
            row = lock_stream(connection, stream)
            pending = _newest(connection, stream)
            if pending is not None and pending.half_done:
                return _require_same_epoch(pending, epoch)
            target = {"epoch": epoch, "snapshot": snapshot, "why": why, "run": run}
            running = row is not None and row.is_desired
            if pending is not None and not pending.closed:
                _replace_request(connection, pending, running=running, target=target)
            else:
                number = 1 if pending is None else pending.history + 1
                values = {**target, "stream": stream, "history": number, "was_running": running}
                insert = sa.insert(restores).values(**values, asked_at=store_now())
                connection.execute(insert)
            wanted = _newest(connection, stream)
        assert wanted is not None, "the row was written in this transaction"  # noqa: S101
        return wanted

    def stop_for(self, wanted: RestoreRow) -> bool:
        """Stop the stream; false if the restore has finished or was replaced by another.

        Two runs may perform it: the slower one must not stop a stream that the faster one has started again.
        """
        with self._database.write() as connection:
            lock_stream(connection, wanted.stream)  # a run that finishes it waits, or has finished
            pending = _newest(connection, wanted.stream)
            if pending is None or pending.finished or not pending.has_same_target(wanted):
                return False
            set_desired(connection, wanted.stream, DesiredState.STOPPED)
        return True

    def begin(self, wanted: RestoreRow) -> int | None:
        """End the older history: it can add no entries, and its later ones are set aside.

        Returns how many entries that were; `None` if nothing was changed, because a replica lives or is
        desired, or another restore was requested meanwhile.
        """
        with self._database.write() as connection:
            stopped = is_stopped_locked(connection, wanted.stream)
            pending = _newest(connection, wanted.stream)
            if not stopped or pending is None:
                return None
            if pending.begun or pending.history != wanted.history:
                return 0
            if not pending.has_same_target(wanted):
                return None
            if not pending.closed:
                _close(connection, pending)
        return sum(self._portions_set_aside(pending))

    def _portions_set_aside(self, closed: RestoreRow) -> Iterator[int]:
        """Set the later entries of the older history aside; the restore has begun when there are none left."""
        while (portion := self._set_portion_aside(closed)) is not None:
            yield portion

    def _set_portion_aside(self, closed: RestoreRow) -> int | None:
        key = {"of_stream": closed.stream, "number": closed.history}
        with self._database.write_portion() as connection:
            lock_additions(connection, closed.stream)
            pending = _newest(connection, closed.stream)
            if pending is None or pending.begun or pending.history != closed.history:
                return None  # another run was faster: what is there by now counts
            later = {"of_stream": closed.stream, "last_epoch": closed.epoch}
            first = connection.execute(_FIRST_LATER, later).scalar()
            if first is None:
                connection.execute(_BEGIN, key)
                return None
            portion = {"of_stream": closed.stream, "first": first, "last": first + PORTION - 1}
            connection.execute(_KEEP, {**portion, "number": closed.history})
            connection.execute(_DROP_COPIES, portion)
            return connection.execute(_DROP_ENTRIES, portion).rowcount

    def set_aside(self, stream: str, history: int) -> list[LedgerEntry]:
        """The entries of later epochs that the restore which began a history has set aside."""
        values = {"of_stream": stream, "number": history}
        return self._database.find_all(LedgerEntry, _SET_ASIDE, values)

    def finish(self, begun: RestoreRow) -> None:
        """Record that state and output are restored, and start the stream if it ran before."""
        key = {"of_stream": begun.stream, "number": begun.history}
        with self._database.write() as connection:
            lock_stream(connection, begun.stream)  # the stream's row first, as others do
            was_running = connection.execute(_FINISH, key).scalar()
            if was_running:
                set_desired(connection, begun.stream, DesiredState.RUNNING)


def _close(connection: sa.Connection, pending: RestoreRow) -> None:
    """Close the older history: none of its replicas can add an entry or renew the lease."""
    shorten_gaps(connection, pending.stream, pending.epoch)
    fence_lease(connection, pending.stream)
    connection.execute(_CLOSE, {"of_stream": pending.stream, "number": pending.history})


def _newest(connection: sa.Connection, stream: str) -> RestoreRow | None:
    row = connection.execute(_NEWEST, {"of_stream": stream}).mappings().first()
    return None if row is None else RestoreRow(**row)


def _require_same_epoch(pending: RestoreRow, epoch: int) -> RestoreRow:
    if pending.epoch == epoch:
        return pending
    raise PermanentError(
        f"{pending.stream} cannot be restored to epoch {epoch}: its restore to epoch {pending.epoch} is half done",
        hint=f"run `holdfast restore {pending.stream} --epoch {pending.epoch}` to finish it, then restore again",
    )


def _replace_request(
    connection: sa.Connection, pending: RestoreRow, *, running: bool, target: dict[str, Any]
) -> None:
    values = {f"new_{name}": value for name, value in target.items()}
    # The run that recorded the first request may have stopped the stream for it already.
    was_running = pending.was_running or running
    key = {"of_stream": pending.stream, "number": pending.history}
    connection.execute(_REPLACE, {**key, **values, "new_was_running": was_running})


_COPIED = ((epochs.c.epoch, -1), (epoch_files.c.name, ""), (ledger.c.epoch, -1))
"""The tables that a fork copies, the ledger last: by which column, and a value before the first."""


_later_files = epoch_files.alias("later_files")
_before_later_files = (
    sa.select(sa.func.min(_later_files.c.changed_ns) - 1)
    .where(
        _later_files.c.stream == sa.bindparam("of_stream"),
        _later_files.c.epoch > sa.bindparam("last", type_=sa.BigInteger),
    )
    .scalar_subquery()
)
# A fork reads the later files of its original again, also those that are older than forgotten ones.
_FORGOTTEN_OF_FORK = sa.select(
    sa.bindparam("into_stream", type_=sa.Text),
    epoch_files.c.name,
    epoch_files.c.epoch,
    epoch_files.c.size,
    sa.case(
        (_before_later_files < epoch_files.c.changed_ns, _before_later_files),
        else_=epoch_files.c.changed_ns,
    ),
).where(epoch_files.c.stream == sa.bindparam("of_stream"), epoch_files.c.name == FORGOTTEN)


class Forks:
    """Copies within the epoch log (with its gaps) and the ledger; the original is only read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        others = [column for column in epoch_floors.c if column.name != "stream"]
        floor = sa.select(sa.bindparam("into_stream", type_=sa.Text), *others).where(
            epoch_floors.c.stream == sa.bindparam("of_stream")
        )
        copy_floor = database.insert(epoch_floors).from_select(
            ["stream", *(column.name for column in others)], floor
        )
        self._copy_floor = copy_floor.on_conflict_do_nothing()
        copy_forgotten = database.insert(epoch_files).from_select(
            ["stream", "name", "epoch", "size", "changed_ns"], _FORGOTTEN_OF_FORK
        )
        self._copy_forgotten = copy_forgotten.on_conflict_do_nothing()

    def copy(self, stream: str, *, into: str, through_epoch: int) -> int:
        """Give a new stream the epochs of another up to one; returns the number of new ledger entries.

        It may be repeated. The last entry of the ledger is copied last: a fork that has it has everything.
        """
        with self._database.write() as connection:
            connection.execute(self._copy_floor, {"of_stream": stream, "into_stream": into})
            copy_gaps(connection, stream, into=into, through_epoch=through_epoch)
            connection.execute(
                self._copy_forgotten,
                {"of_stream": stream, "into_stream": into, "last": through_epoch},
            )
        values = {"of_stream": stream, "into_stream": into, "through": through_epoch}
        copied = [self._copy_table(key, before, values) for key, before in _COPIED]
        return copied[-1]

    def _copy_table(self, key: sa.Column[Any], before: int | str, values: dict[str, Any]) -> int:
        """Copy one table in portions of rows; its past may have been pruned."""
        last, copy = _last_of_portion(key), self._copy_portion(key)
        copied, portion = 0, {**values, "after": before}
        while (until := self._database.fetch(last, portion)[0]["last"]) is not None:
            with self._database.write_portion() as connection:
                rows = connection.execute(copy, {**portion, "until": until})
                copied += len(rows.all())
            portion["after"] = until
        return copied

    def _copy_portion(self, key: sa.Column[Any]) -> Executable:
        table = key.table
        names = [column.name for column in table.c if column.name != "stream"]
        rows = sa.select(
            sa.bindparam("into_stream", type_=sa.Text), *(table.c[name] for name in names)
        ).where(_is_left(key), key <= sa.bindparam("until"))
        copy = self._database.insert(table).from_select(["stream", *names], rows)
        return copy.on_conflict_do_nothing().returning(key)


def _is_left(key: sa.Column[Any]) -> sa.ColumnElement[bool]:
    """Whether a row of the original was not copied yet."""
    of = key.table.c
    return sa.and_(
        of.stream == sa.bindparam("of_stream"),
        of.epoch <= sa.bindparam("through"),
        key > sa.bindparam("after"),
    )


def _last_of_portion(key: sa.Column[Any]) -> Executable:
    portion = sa.select(key.label("key")).where(_is_left(key)).order_by(key).limit(PORTION)
    return sa.select(sa.func.max(portion.subquery().c.key).label("last"))
