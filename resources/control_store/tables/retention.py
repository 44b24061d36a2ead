"""Deleting what is older than its retention, in small transactions: no other writer waits long for a lock.

Epoch log and ledger are cut at a floor, which is stored with the sums of what was deleted; the names of assigned
files stay as long as their source may keep the files. What the newest row of a stream says is never deleted.
"""

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.epoch_records import FORGOTTEN, EpochFloor, Gap
from holdfast.resources.control_store.records import (
    IncidentState,
    ReplicaRow,
    SnapshotState,
)
from holdfast.resources.control_store.schema import (
    decisions,
    epoch_files,
    epoch_floors,
    epochs,
    gaps,
    incidents,
    journal,
    leases,
    ledger,
    ledger_copies,
    ledger_superseded,
    migrations,
    replicas,
    restores,
    snapshots,
    tier_changes,
)
from holdfast.resources.control_store.tables.streams import lock_stream

PORTION = 1_000
MOST_DECISIONS = 1_000
"""Of a stream: a review comes each 10 s, and a prediction that is close to the objective changes with each one."""
FREE_PAGES = 2_000
"""So many free pages of a SQLite file (8 MB) stay in it: the next hour fills them again."""
_BEFORE = sa.bindparam("before", type_=sa.Double)
_STREAM = sa.bindparam("of_stream", type_=sa.Text)
_UNTIL = sa.bindparam("until", type_=sa.BigInteger)
_FLOOR = sa.select(epoch_floors).where(epoch_floors.c.stream == _STREAM)
_FIRST_SINCE = (
    sa.select(epochs.c.epoch)
    .where(epochs.c.stream == _STREAM, epochs.c.decided_at >= sa.bindparam("since"))
    .order_by(epochs.c.epoch)
    .limit(1)
)
_PENDING_RESTORE = sa.select(restores.c.epoch).where(
    restores.c.stream == _STREAM, restores.c.finished_at.is_(None), restores.c.epoch < _UNTIL
)


def first_kept_epoch(stream: sa.ColumnElement[str]) -> sa.ColumnElement[int]:
    """The oldest epoch of a stream that is not pruned; 0 if none is."""
    first = sa.select(epoch_floors.c.first_epoch).where(epoch_floors.c.stream == stream)
    return sa.func.coalesce(first.scalar_subquery(), 0)


def _rows_before(table: sa.Table) -> sa.Select[tuple[int]]:
    total = sa.func.coalesce(sa.func.sum(table.c.rows), 0)
    return sa.select(total).where(table.c.stream == _STREAM, table.c.epoch < _UNTIL)


def _epochs_before(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(table.c.stream == _STREAM, table.c.epoch < _UNTIL)


_EPOCH_TABLES = [_epochs_before(table) for table in (ledger_copies, ledger, epochs)]


def _oldest(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.Delete:
    """Delete one portion of the rows that meet the conditions, the oldest first."""
    oldest = sa.select(table.c.id).where(*conditions).order_by(table.c.id).limit(PORTION)
    return sa.delete(table).where(table.c.id.in_(oldest))


def _has_newer(table: sa.Table) -> sa.Exists:
    newer = table.alias("newer")
    return sa.exists().where(newer.c.stream == table.c.stream, newer.c.id > table.c.id)


_RECORDS = {
    "journal": _oldest(journal, journal.c.at < _BEFORE),
    "decisions": _oldest(decisions, decisions.c.at < _BEFORE, _has_newer(decisions)),
    "tier_changes": _oldest(tier_changes, tier_changes.c.at < _BEFORE, _has_newer(tier_changes)),
    "incidents": _oldest(
        incidents,
        incidents.c.state == IncidentState.CLOSED,
        incidents.c.closed_at < _BEFORE,
    ),
}
_LAST_SURPLUS = (
    sa.select(decisions.c.id)
    .where(decisions.c.stream == _STREAM)
    .order_by(decisions.c.id.desc())
    .offset(sa.bindparam("most", type_=sa.Integer))
    .limit(1)
)
_SURPLUS = _oldest(
    decisions,
    decisions.c.stream == _STREAM,
    decisions.c.id <= sa.bindparam("last_surplus", type_=sa.BigInteger),
)
_DECIDED_STREAMS = sa.select(decisions.c.stream).distinct()
_newer_restore = restores.alias("newer_restore")
_newer_migration = migrations.alias("newer_migration")


def _portion_of(
    table: sa.Table, number: sa.Column[int], *conditions: sa.ColumnElement[bool]
) -> sa.Delete:
    """The same where a row has a number within its stream."""
    key = (table.c.stream, number)
    oldest = sa.select(*key).where(*conditions).order_by(*key).limit(PORTION)
    return sa.delete(table).where(sa.tuple_(*key).in_(oldest))


_NUMBERED = {
    # A finished restore says which history is the current one, and which snapshots and entries it has undone.
    "restores": _portion_of(
        restores,
        restores.c.history,
        restores.c.finished_at < _BEFORE,
        restores.c.epoch < first_kept_epoch(restores.c.stream),
        sa.exists().where(
            _newer_restore.c.stream == restores.c.stream,
            _newer_restore.c.history > restores.c.history,
            _newer_restore.c.finished_at.is_not(None),
        ),
        ~sa.exists().where(
            snapshots.c.stream == restores.c.stream,
            snapshots.c.history < restores.c.history,
            snapshots.c.epoch > restores.c.epoch,
        ),
        ~sa.exists().where(
            ledger_superseded.c.stream == restores.c.stream,
            ledger_superseded.c.history == restores.c.history,
        ),
    ),
    # An abandoned migration says which replicas were rolled back, the newest which number comes next.
    "migrations": _portion_of(
        migrations,
        migrations.c.rollout,
        migrations.c.ended_at < _BEFORE,
        sa.exists().where(
            _newer_migration.c.stream == migrations.c.stream,
            _newer_migration.c.rollout > migrations.c.rollout,
        ),
        ~sa.exists().where(
            replicas.c.stream == migrations.c.stream,
            replicas.c.rollout == migrations.c.rollout,
        ),
    ),
}
_OLD_GAPS = sa.select(gaps).where(gaps.c.opened_at < _BEFORE)
_FOLD_GAP = (
    sa.update(gaps)
    .where(gaps.c.stream == _STREAM, gaps.c.gap == sa.bindparam("number"))
    .values(files=sa.bindparam("new_files", type_=gaps.c.files.type))
)
_DROPPED = _oldest(
    snapshots,
    snapshots.c.stream == _STREAM,
    snapshots.c.state == SnapshotState.DROPPED,
    snapshots.c.created_at < _BEFORE,
    sa.or_(snapshots.c.proven_at.is_(None), snapshots.c.proven_at < _BEFORE),
).where(snapshots.c.stream == _STREAM)
_later = replicas.alias("later")
# A snapshot is judged by its replica's row: it is superseded if the replica was rolled back.
_ENDED = (
    sa.select(replicas)
    .where(
        replicas.c.ended_at < _BEFORE,
        sa.exists().where(
            _later.c.stream == replicas.c.stream, _later.c.registered_at > replicas.c.registered_at
        ),
        ~sa.exists().where(snapshots.c.replica == replicas.c.id),
        ~sa.exists().where(leases.c.holder == replicas.c.id),
    )
    .order_by(replicas.c.registered_at)
    .limit(PORTION)
)
_FORGET_REPLICAS = sa.delete(replicas).where(
    replicas.c.id.in_(sa.bindparam("ids", expanding=True)), replicas.c.ended_at.is_not(None)
)
_SUPERSEDED = (
    sa.select(
        ledger_superseded.c.stream,
        ledger_superseded.c.history,
        sa.func.min(ledger_superseded.c.epoch).label("first"),
    )
    .join(
        restores,
        sa.and_(
            restores.c.stream == ledger_superseded.c.stream,
            restores.c.history == ledger_superseded.c.history,
        ),
    )
    .where(restores.c.finished_at < _BEFORE)
    .group_by(ledger_superseded.c.stream, ledger_superseded.c.history)
    .limit(1)
)
_FORGET_SUPERSEDED = sa.delete(ledger_superseded).where(
    ledger_superseded.c.stream == _STREAM,
    ledger_superseded.c.history == sa.bindparam("of_history"),
    ledger_superseded.c.epoch < _UNTIL,
)


_NAMES = (
    sa.select(epoch_files.c.name, epoch_files.c.changed_ns)
    .where(
        epoch_files.c.stream == _STREAM,
        epoch_files.c.epoch < _UNTIL,
        epoch_files.c.changed_ns < sa.bindparam("changed_before", type_=sa.BigInteger),
        epoch_files.c.name > sa.bindparam("after", type_=sa.Text),
    )
    .order_by(epoch_files.c.name)
    .limit(PORTION)
)
_FORGET_NAMES = sa.delete(epoch_files).where(
    epoch_files.c.stream == _STREAM, epoch_files.c.name.in_(sa.bindparam("names", expanding=True))
)


class Retention:
    """Old rows of all streams, and how far their epochs are pruned."""

    def __init__(self, database: Database) -> None:
        self._database = database
        floor = database.insert(epoch_floors).values(
            stream=_STREAM,
            first_epoch=_UNTIL,
            rows=sa.bindparam("more_rows", type_=sa.BigInteger),
            entered_rows=sa.bindparam("more_entered", type_=sa.BigInteger),
            pruned_at=store_now(),
        )
        self._raise_floor = floor.on_conflict_do_update(
            index_elements=[epoch_floors.c.stream],
            set_={
                "first_epoch": floor.excluded.first_epoch,
                "rows": epoch_floors.c.rows + floor.excluded.rows,
                "entered_rows": epoch_floors.c.entered_rows + floor.excluded.entered_rows,
                "pruned_at": store_now(),
            },
        )

        forgotten = database.insert(epoch_files).values(
            stream=_STREAM,
            name=FORGOTTEN,
            epoch=-1,
            changed_ns=sa.bindparam("newest_ns", type_=sa.BigInteger),
        )
        self._note_forgotten = forgotten.on_conflict_do_update(
            index_elements=[epoch_files.c.stream, epoch_files.c.name],
            set_={"changed_ns": forgotten.excluded.changed_ns},
            where=forgotten.excluded.changed_ns > epoch_files.c.changed_ns,
        )

    def floor(self, stream: str) -> EpochFloor:
        """How far the epochs of a stream are pruned."""
        row = self._database.find(EpochFloor, _FLOOR, {"of_stream": stream})
        return EpochFloor(stream=stream) if row is None else row

    def first_epoch_since(self, stream: str, at: float) -> int | None:
        """The oldest kept epoch that was decided at this time or later."""
        rows = self._database.fetch(_FIRST_SINCE, {"of_stream": stream, "since": at})
        return int(rows[0]["epoch"]) if rows else None

    def prune_epochs(self, stream: str, *, before: int) -> int:
        """Delete epochs and their ledger entries before one; returns how many epochs the floor has risen.

        It stops at a restore that was requested meanwhile.
        """
        began = first = self.floor(stream).first_epoch
        while first < before:
            until = min(first + PORTION, before)
            if not self._prune_portion(stream, until):
                break
            first = until
        return first - began

    def _prune_portion(self, stream: str, until: int) -> bool:
        values = {"of_stream": stream, "until": until}
        with self._database.write_portion() as connection:
            lock_stream(connection, stream)  # a restore locks it, too, before it is requested
            if connection.execute(_PENDING_RESTORE, values).first() is not None:
                return False
            sums = {
                "more_rows": connection.execute(_rows_before(epochs), values).scalar_one(),
                "more_entered": connection.execute(_rows_before(ledger), values).scalar_one(),
            }
            for delete in _EPOCH_TABLES:
                connection.execute(delete, values)
            connection.execute(self._raise_floor, {**values, **sums})
        return True

    def prune_file_names(
        self, stream: str, *, changed_before_ns: int, listed: Collection[str]
    ) -> int:
        """Forget files of pruned epochs that were last changed before a time, except those that are still listed.

        The time of change of the newest of them is kept.
        """
        until, pruned, after = self.floor(stream).first_epoch, 0, FORGOTTEN
        old = {"of_stream": stream, "until": until, "changed_before": changed_before_ns}
        while rows := self._database.fetch(_NAMES, {**old, "after": after}):
            gone = [row for row in rows if row["name"] not in listed]
            if gone:
                newest_ns = max(row["changed_ns"] for row in gone)
                values = {"of_stream": stream, "names": [row["name"] for row in gone]}
                with self._database.write_portion(durable=False) as connection:
                    connection.execute(self._note_forgotten, {**values, "newest_ns": newest_ns})
                    connection.execute(_FORGET_NAMES, values)
            pruned, after = pruned + len(gone), rows[-1]["name"]
        return pruned

    def prune_records(self, *, before: float) -> dict[str, int]:
        """Delete what is old and not needed of each kind of record; returns how many of each."""
        pruned = {
            name: self._in_portions(delete, {"before": before})
            for name, delete in (_RECORDS | _NUMBERED).items()
        }
        return pruned | {"decisions": pruned["decisions"] + self._prune_surplus_decisions()}

    def _prune_surplus_decisions(self) -> int:
        pruned = 0
        for row in self._database.fetch(_DECIDED_STREAMS):
            values = {"of_stream": row["stream"]}
            last = self._database.fetch(_LAST_SURPLUS, {**values, "most": MOST_DECISIONS})
            if last:
                surplus = {**values, "last_surplus": last[0]["id"]}
                pruned += self._in_portions(_SURPLUS, surplus)
        return pruned

    def fold_gaps(self, *, before: float) -> int:
        """Keep only how many rows of each epoch were skipped in old gaps, not of which files; returns how many gaps.

        The names are needed to undo a gap, as long as its epochs are not pruned.
        """
        folded = 0
        for gap in self._database.find_all(Gap, _OLD_GAPS, {"before": before}):
            is_pruned = max(gap.files, default=0) < self.floor(gap.stream).first_epoch
            if gap.file_count and is_pruned:
                files = {epoch: {"": sum(names.values())} for epoch, names in gap.files.items()}
                values = {"of_stream": gap.stream, "number": gap.gap, "new_files": files}
                with self._database.write_portion(durable=False) as connection:
                    connection.execute(_FOLD_GAP, values)
                folded += 1
        return folded

    def prune_dropped_snapshots(self, stream: str, *, before: float) -> int:
        """Delete the catalogue's rows of snapshots that were dropped."""
        return self._in_portions(_DROPPED, {"of_stream": stream, "before": before})

    def ended_replicas(self, *, before: float) -> list[ReplicaRow]:
        """A portion of the replicas that ended before a time and that no other row needs."""
        return self._database.find_all(ReplicaRow, _ENDED, {"before": before})

    def forget_replicas(self, ids: Sequence[str]) -> None:
        """Delete the rows of ended replicas."""
        if ids:
            with self._database.write_portion() as connection:
                connection.execute(_FORGET_REPLICAS, {"ids": list(ids)})

    def prune_superseded(self, *, before: float) -> int:
        """Delete the ledger entries that were superseded by restores finished before this time."""
        pruned = 0
        while rows := self._database.fetch(_SUPERSEDED, {"before": before}):
            row = rows[0]
            values = {"of_stream": row["stream"], "of_history": row["history"]}
            with self._database.write_portion() as connection:
                until = {"until": row["first"] + PORTION}
                pruned += connection.execute(_FORGET_SUPERSEDED, {**values, **until}).rowcount
        return pruned

    def release_space(self) -> int:
        """Give free pages of a SQLite file back to the file system, in portions; returns how many."""
        released = 0
        while self._database.is_sqlite:
            with self._database.write_portion(durable=False) as connection:
                free = _count_free(connection)
                if free <= FREE_PAGES:
                    break
                pages = min(free - FREE_PAGES, PORTION)
                _free_pages(connection, pages)
                portion = free - _count_free(connection)
            released += portion
            if (
                portion == 0
            ):  # a file that an older version made and that could not be written again
                break
        return released

    def _in_portions(self, delete: sa.Delete, values: dict[str, Any]) -> int:
        pruned = 0
        while True:
            with self._database.write_portion(durable=False) as connection:
                portion = connection.execute(delete, values).rowcount
            pruned += portion
            if portion < PORTION:
                return pruned


def _count_free(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())


def _free_pages(connection: sa.Connection, pages: int) -> None:
    cursor = connection.connection.cursor()
    cursor.execute(f"PRAGMA incremental_vacuum({pages})")
    cursor.fetchall()  # each page is a row without columns, which SQLAlchemy takes for no result
    cursor.close()
