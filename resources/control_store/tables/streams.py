"""Declared streams: whether they should run, and in which tier.

The row in `streams` is authoritative; the changes of tier are written in the same transaction, so the newest
of them is always the tier that the stream should have.
"""

import zlib
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import Mode
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import (
    DesiredState,
    Intervals,
    JsonObject,
    StreamRow,
    TierChange,
)
from holdfast.resources.control_store.schema import replicas, restores, streams, tier_changes

_ADDITIONS = 0x4144_4453  # "ADDS": the advisory locks of streams
_IS_NAME = streams.c.name == sa.bindparam("of_name")
_GET = sa.select(streams).where(_IS_NAME)
_LOCK = _GET.with_for_update()
_ALL = sa.select(streams).order_by(streams.c.name)
_WANTED = sa.select(streams.c.name).where(streams.c.desired == DesiredState.RUNNING)
_DECLARATIONS = sa.select(streams.c.name, streams.c.declaration)
_DECLARE_AGAIN = (
    sa.update(streams)
    .where(_IS_NAME)
    .values(
        declaration=sa.bindparam("new_declaration"),
        declared_tier=sa.bindparam("new_declared_tier"),
        tier=sa.bindparam("new_tier"),
        changed_at=store_now(),
        snapshot_every=None,
        sync_every=None,
    )
    .returning(*streams.c)
)
_DESIRE = (
    sa.update(streams)
    .where(_IS_NAME)
    .values(desired=sa.bindparam("new_desired"), changed_at=store_now())
)
_UNFINISHED = sa.and_(
    restores.c.stream == sa.bindparam("of_name"), restores.c.finished_at.is_(None)
)
_UPDATE_RESTORES = {
    DesiredState.RUNNING: sa.delete(restores).where(_UNFINISHED, restores.c.closed_at.is_(None)),
    DesiredState.STOPPED: sa.update(restores).where(_UNFINISHED).values(was_running=False),
}
_INTERVALS = sa.select(streams.c.snapshot_every, streams.c.sync_every).where(_IS_NAME)
_SET_INTERVALS = (
    sa.update(streams)
    .where(_IS_NAME)
    .values(
        snapshot_every=sa.bindparam("new_snapshot_every", type_=sa.Double),
        sync_every=sa.bindparam("new_sync_every", type_=sa.Double),
    )
    .returning(streams.c.name)
)


class Streams:
    def __init__(self, database: Database) -> None:
        self._database = database

    def declare(self, name: str, declaration: JsonObject, tier: str) -> StreamRow:
        """Record a declaration; a new stream is stopped, a declared one keeps its desired state.

        A declaration that names another tier than before, or that pins the tier, changes it; one that
        names the same leaves it, because it may have been switched since. Any change resets the intervals to the declared
        ones.
        """
        with self._database.write() as connection:
            if self._insert(connection, name, declaration, tier):
                record_tier_change(connection, stream=name, tier_to=tier, why="declared", run="")
            row = _require(lock_stream(connection, name), name)
            if (row.declaration, row.declared_tier) == (declaration, tier):
                return row
            return redeclare(connection, row, declaration, tier)

    def _insert(
        self, connection: sa.Connection, name: str, declaration: JsonObject, tier: str
    ) -> bool:
        insert = self._database.insert(streams).values(
            name=name,
            declaration=declaration,
            declared_tier=tier,
            tier=tier,
            desired=DesiredState.STOPPED,
            declared_at=store_now(),
            changed_at=store_now(),
            rollout=0,
        )
        returning = insert.on_conflict_do_nothing().returning(streams.c.name)
        return connection.execute(returning).first() is not None

    def get(self, name: str) -> StreamRow | None:
        return self._database.find(StreamRow, _GET, {"of_name": name})

    def all(self) -> list[StreamRow]:
        return self._database.find_all(StreamRow, _ALL)

    def list_wanted(self) -> set[str]:
        """The names of the streams that should run."""
        return {row["name"] for row in self._database.fetch(_WANTED)}

    def declarations(self) -> dict[str, JsonObject]:
        """What each stream was last declared as, also where its row has an error otherwise."""
        return {row["name"]: row["declaration"] for row in self._database.fetch(_DECLARATIONS)}

    def desire(self, name: str, desired: DesiredState) -> None:
        """Set whether the stream should run.

        Starting a stream drops a restore that has not begun. Stopping it during a restore makes the restore
        leave it stopped; the restore itself stops the stream by `stop_for`.
        """
        with self._database.write() as connection:
            _require(lock_stream(connection, name), name)
            set_desired(connection, name, desired)
            connection.execute(_UPDATE_RESTORES[desired], {"of_name": name})

    def set_intervals(
        self, name: str, *, snapshot_every: float | None, sync_every: float | None
    ) -> None:
        """Set how often snapshots are shipped and synced; running replicas apply it soon."""
        values = {"new_snapshot_every": snapshot_every, "new_sync_every": sync_every}
        if not self._database.execute(_SET_INTERVALS, {"of_name": name, **values}):
            raise PermanentError(
                f"the control store has no stream {name!r}", hint="declare the stream first"
            )

    def intervals(self, name: str) -> Intervals:
        """How often snapshots are shipped and synced, where it differs from the declaration."""
        return self._database.find(Intervals, _INTERVALS, {"of_name": name}) or Intervals()


def resolve_tier(row: StreamRow, declaration: JsonObject, declared: str) -> str:
    """The tier of a stream after a declaration: the declared one if it is new, otherwise the present one.

    A tier that was a default so far and is pinned now is new, even if the default was the same.
    """
    pinned_now = _is_pinned(declaration) and not _is_pinned(row.declaration)
    return declared if pinned_now or row.declared_tier != declared else row.tier


def _is_pinned(declaration: JsonObject) -> bool:
    mode = declaration.get("controller", {}).get("mode", Mode.PINNED)
    return bool(mode == Mode.PINNED)


def redeclare(
    connection: sa.Connection, row: StreamRow, declaration: JsonObject, tier: str
) -> StreamRow:
    """Give a stream another declaration; one that names another tier changes the tier."""
    new_tier = resolve_tier(row, declaration, tier)
    if new_tier != row.tier:
        change = {"tier_from": row.tier, "tier_to": new_tier}
        record_tier_change(connection, stream=row.name, **change, why="declared", run="")
    values = {
        "of_name": row.name,
        "new_declaration": declaration,
        "new_declared_tier": tier,
        "new_tier": new_tier,
    }
    return StreamRow(**connection.execute(_DECLARE_AGAIN, values).mappings().one())


_OF_STREAM = tier_changes.c.stream == sa.bindparam("of_stream")
_SET = sa.update(streams).where(_IS_NAME).values(tier=sa.bindparam("tier_to"))
_CHANGED = sa.select(tier_changes.c.stream, sa.func.max(tier_changes.c.at).label("at")).group_by(
    tier_changes.c.stream
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
        """Set the tier that the stream should have; `None` if it has it already."""
        with self._database.write() as connection:
            before = _require(lock_stream(connection, stream), stream).tier
            if before == tier:
                return None
            connection.execute(_SET, {"of_name": stream, "tier_to": tier})
            return record_tier_change(
                connection, stream=stream, tier_from=before, tier_to=tier, why=why, run=run
            )

    def record_reached(self, stream: str, *, tier: str) -> bool:
        """Record that the replicas have reached a tier; false if there is nothing to record.

        Nothing is recorded if another tier was requested since the observation.
        """
        return bool(self._database.execute(_REACHED, {"of_stream": stream, "tier_is": tier}))

    def changed_at(self) -> dict[str, float]:
        """When the tier of each stream was changed last."""
        return {row["stream"]: float(row["at"]) for row in self._database.fetch(_CHANGED, {})}

    def history(self, stream: str, *, limit: int = 200) -> list[TierChange]:
        """The newest changes of a stream, oldest first."""
        values = {"of_stream": stream, "most": limit}
        return self._database.find_all(TierChange, _HISTORY, values)[::-1]


def record_tier_change(connection: sa.Connection, **change: Any) -> TierChange:
    """Write one line of history, in the transaction that changes the stream's row."""
    line = sa.insert(tier_changes).values(**change, at=store_now()).returning(*tier_changes.c)
    return TierChange(**connection.execute(line).mappings().one())


_LIVE = sa.select(replicas.c.id).where(
    replicas.c.stream == sa.bindparam("of_stream"), replicas.c.ended_at.is_(None)
)


def lock_stream(connection: sa.Connection, name: str) -> StreamRow | None:
    """Read and lock the stream's row until the transaction ends."""
    row = connection.execute(_LOCK, {"of_name": name}).mappings().one_or_none()
    return None if row is None else StreamRow(**row)


def set_desired(connection: sa.Connection, name: str, desired: DesiredState) -> None:
    """Set whether the stream should run, in the transaction that has locked its row."""
    connection.execute(_DESIRE, {"of_name": name, "new_desired": desired})


def lock_additions(connection: sa.Connection, stream: str) -> None:
    """Wait for ledger entries and replicas of a stream that are being added; until the transaction ends none can be.

    What was added meanwhile was allowed by what is about to change. Other streams are not held up.
    """
    _lock_advisory(connection, sa.func.pg_advisory_xact_lock, stream)


def lock_for_addition(connection: sa.Connection, stream: str) -> None:
    """Wait while `lock_additions` is held for the stream; additions do not wait for each other."""
    _lock_advisory(connection, sa.func.pg_advisory_xact_lock_shared, stream)


def _lock_advisory(connection: sa.Connection, lock: Callable[..., Any], stream: str) -> None:
    """Lock a stream in PostgreSQL; SQLite has one writer at a time. Two names may have one number: they wait."""
    if connection.dialect.name == "postgresql":
        number = zlib.crc32(stream.encode()) - 2**31  # as PostgreSQL's integer
        connection.execute(sa.select(lock(_ADDITIONS, number)))


def is_stopped_locked(connection: sa.Connection, stream: str) -> bool:
    """Whether no replica lives or is desired; it stays so until the transaction ends.

    Until then no entry can be added to the ledger either.
    """
    row = lock_stream(connection, stream)  # the stream's row first, as takeovers do
    lock_additions(connection, stream)
    lives = connection.execute(_LIVE, {"of_stream": stream}).first() is not None
    return not lives and (row is None or not row.is_desired)


def _require(row: StreamRow | None, name: str) -> StreamRow:
    if row is None:
        raise PermanentError(
            f"the control store has no stream {name!r}", hint="declare the stream first"
        )
    return row
