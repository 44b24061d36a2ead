# ruff: noqa: A002 (an id is an id, also as an argument)
"""Replicas: the desired and observed switches of each, and its heartbeat.

At most one live replica has a slot of a stream: a partial unique index ensures it, so that no replica is
started twice, however many processes try.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import sqlalchemy as sa

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import OFF, Switches
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState, Slot
from holdfast.resources.control_store.schema import replicas
from holdfast.resources.control_store.tables.streams import lock_for_addition

_IS_ID = replicas.c.id == sa.bindparam("replica")
_IS_LIVE = replicas.c.ended_at.is_(None)
_HAS_SLOT = sa.and_(replicas.c.slot == sa.bindparam("of_slot"), _IS_LIVE)
_OF = (
    sa.select(replicas)
    .where(replicas.c.stream == sa.bindparam("stream"))
    .order_by(replicas.c.registered_at.desc(), replicas.c.id)
)
_GET = sa.select(replicas).where(_IS_ID)
_others = replicas.alias("others")
_IN_SLOT = sa.select(replicas).where(
    replicas.c.stream == sa.bindparam("of_stream"),
    _HAS_SLOT,
)
_LIVE_SINCE = sa.select(replicas.c.stream, replicas.c.registered_at).where(_HAS_SLOT)
_RECORD_PROCESS = (
    sa.update(replicas)
    .where(_IS_ID, _IS_LIVE)
    .values(pid=sa.bindparam("new_pid"), pid_started_at=sa.bindparam("started_at"))
)
_DESIRE = (
    sa.update(replicas)
    .where(_IS_ID)
    .values(desired=sa.bindparam("switches"), generation=replicas.c.generation + 1)
    .returning(replicas.c.generation)
)
_REQUEST_SNAPSHOT = (
    sa.update(replicas)
    .where(_IS_ID)
    .values(snapshot_requested=replicas.c.snapshot_requested + 1)
    .returning(replicas.c.snapshot_requested)
)
_HEARTBEAT = (
    sa.update(replicas)
    .where(_IS_ID, _IS_LIVE)
    .values(
        state=sa.bindparam("new_state"),
        observed=sa.bindparam("new_observed"),
        observed_generation=sa.bindparam("new_generation"),
        snapshot_served=sa.bindparam("new_served"),
        epoch=sa.bindparam("new_epoch", type_=replicas.c.epoch.type),
        progressed_at=store_now() - sa.bindparam("quiet_seconds", type_=sa.Double),
        heartbeat_at=store_now(),
    )
    .returning(*replicas.c)
)
END = (
    sa.update(replicas)
    .where(_IS_ID, _IS_LIVE)
    .values(
        state=sa.bindparam("new_state"),
        reason=sa.bindparam("new_reason"),
        ended_at=store_now(),
        ended_by=sa.bindparam("new_ended_by"),
    )
)


class Sign(Enum):
    """What a replica must not have done since it was observed, so that it may be ended."""

    LIFE = "life"
    """A heartbeat, or a renewal of its lease."""
    EPOCH = "epoch"
    """It has finished an epoch."""


def as_observed(row: ReplicaRow, sign: Sign) -> tuple[sa.ColumnElement[bool], Mapping[str, Any]]:
    """The condition that a replica has not given this sign since it was observed, with its values."""
    if sign is Sign.EPOCH:
        seen_epoch = sa.bindparam("seen_epoch", type_=replicas.c.epoch.type)
        return replicas.c.epoch.is_not_distinct_from(seen_epoch), {"seen_epoch": row.epoch}
    seen_at = sa.bindparam("seen_heartbeat_at", type_=sa.Double)
    condition = replicas.c.heartbeat_at.is_not_distinct_from(seen_at)
    return condition, {"seen_heartbeat_at": row.heartbeat_at}


def next_generation(stream: sa.ColumnElement[str]) -> sa.ColumnElement[int]:
    """Above the generations of all replicas of a stream: who takes a slot later has a higher one, whatever the clock."""
    newest = sa.select(sa.func.max(_others.c.generation)).where(_others.c.stream == stream)
    return sa.func.coalesce(newest.scalar_subquery(), 0) + 1


class Replicas:
    """The table of replicas, live and ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(
        self,
        *,
        id: str,
        stream: str,
        slot: Slot,
        desired: Switches,
        host: str,
        folder: str,
        rollout: int = 0,
        boot: str = "",
    ) -> ReplicaRow | None:
        """Reserve the slot for a replica about to start; `None` if a live one has it."""
        insert = self._database.insert(replicas).values(
            id=id,
            stream=stream,
            slot=slot,
            state=ReplicaState.STARTING,
            desired=desired,
            observed=OFF,
            generation=next_generation(sa.literal(stream)),
            observed_generation=0,
            snapshot_requested=0,
            snapshot_served=0,
            host=host,
            folder=folder,
            registered_at=store_now(),
            reason="",
            rollout=rollout,
            boot=boot,
        )
        registered = insert.on_conflict_do_nothing().returning(*replicas.c)
        with self._database.write() as connection:
            lock_for_addition(connection, stream)
            row = connection.execute(registered).mappings().one_or_none()
        return None if row is None else ReplicaRow(**row)

    def get(self, id: str) -> ReplicaRow | None:
        """The replica of this id, live or ended."""
        return self._database.find(ReplicaRow, _GET, {"replica": id})

    def of(self, stream: str, *, live: bool = True) -> list[ReplicaRow]:
        """The live replicas of a stream, or all of them; newest first."""
        query = _OF.where(_IS_LIVE) if live else _OF
        return self._database.find_all(ReplicaRow, query, {"stream": stream})

    def live(self, stream: str, slot: Slot) -> ReplicaRow | None:
        """The live replica that has the slot."""
        return self._database.find(ReplicaRow, _IN_SLOT, {"of_stream": stream, "of_slot": slot})

    def live_since(self, slot: Slot) -> dict[str, float]:
        """The streams that have a live replica in the slot, and since when; in one query."""
        rows = self._database.fetch(_LIVE_SINCE, {"of_slot": slot})
        return {row["stream"]: float(row["registered_at"]) for row in rows}

    def record_process(self, id: str, *, pid: int, pid_started_at: float) -> None:
        """Record the process of a replica; its start time tells it from a later one with the same id."""
        values = {"replica": id, "new_pid": pid, "started_at": pid_started_at}
        self._database.execute(_RECORD_PROCESS, values)

    def desire(self, id: str, switches: Switches, *, slot: Slot | None = None) -> int | None:
        """Set the desired switches of a replica; returns the generation of this request.

        With `slot`, only if it is live and has that slot; otherwise `None`, and nothing is changed.
        """
        values = {"replica": id, "switches": switches}
        if slot is not None:
            rows = self._database.execute(_DESIRE.where(_HAS_SLOT), {**values, "of_slot": slot})
            return int(rows[0]["generation"]) if rows else None
        rows = self._database.execute(_DESIRE, values)
        return int(_require_row(rows, id)["generation"])

    def request_snapshot(self, id: str) -> int:
        """Request a snapshot; it is served when `snapshot_served` reaches the returned number."""
        rows = self._database.execute(_REQUEST_SNAPSHOT, {"replica": id})
        return int(_require_row(rows, id)["snapshot_requested"])

    def heartbeat(
        self,
        id: str,
        *,
        state: ReplicaState,
        observed: Switches,
        observed_generation: int,
        snapshot_served: int,
        epoch: int | None,
        quiet_seconds: float | None = None,
    ) -> ReplicaRow:
        """Record that the replica is alive, with its observed switches; the row has the desired ones.

        `quiet_seconds` counts since its last epoch, or since its start, on its own monotonic clock: however the
        store's clock is set, each heartbeat tells how long ago that was.
        An ended replica stays ended: the row shows it, and the replica must stop.
        """
        if state.ended:
            raise PermanentError(f"a replica in state {state} has no heartbeat", hint="call `end`")
        values = {
            "replica": id,
            "new_state": state,
            "new_observed": observed,
            "new_generation": observed_generation,
            "new_served": snapshot_served,
            "new_epoch": epoch,
            "quiet_seconds": quiet_seconds,
        }
        rows = self._database.execute(_HEARTBEAT, values, durable=False)
        rows = rows or self._database.fetch(_GET, {"replica": id})
        return ReplicaRow(**_require_row(rows, id))

    def end(
        self,
        id: str,
        state: ReplicaState,
        reason: str,
        *,
        by: EndedBy,
        slot: Slot | None = None,
    ) -> None:
        """Record the end of a replica; the first end counts. With `slot`, only if it has that slot."""
        values = _end_values(id, state, reason, by)
        if slot is None:
            self._database.execute(END, values)
        else:
            self._database.execute(END.where(_HAS_SLOT), {**values, "of_slot": slot})

    def end_observed(
        self, row: ReplicaRow, state: ReplicaState, reason: str, *, by: EndedBy, unless: Sign
    ) -> bool:
        """Record the end of a replica; false if it has another slot, has ended, or has given that sign since."""
        condition, observed = as_observed(row, unless)
        values = {**_end_values(row.id, state, reason, by), **observed, "of_slot": row.slot}
        ending = END.where(_HAS_SLOT, condition).returning(replicas.c.id)
        return bool(self._database.execute(ending, values))


def _end_values(id: str, state: ReplicaState, reason: str, by: EndedBy) -> dict[str, Any]:
    if not state.ended:
        raise PermanentError(f"a replica cannot end in state {state}", hint="call `heartbeat`")
    return {"replica": id, "new_state": state, "new_reason": reason, "new_ended_by": by}


def _require_row(rows: Sequence[sa.RowMapping], id: str) -> sa.RowMapping:
    if not rows:
        raise PermanentError(f"no replica {id!r} in the control store", hint="register it first")
    return rows[0]
