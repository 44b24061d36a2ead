# ruff: noqa: A002 (an id is an id, also as an argument)
"""Replicas: what each should have on, what it says it has, and that it is alive.

At most one live replica has a slot of a stream: a partial unique index sees to it, so however many
try, nothing is started twice.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import OFF, Switches
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState, Slot
from holdfast.resources.control_store.schema import replicas

_IS_ID = replicas.c.id == sa.bindparam("replica")
_IS_LIVE = replicas.c.ended_at.is_(None)
_HAS_SLOT = sa.and_(replicas.c.slot == sa.bindparam("of_slot"), _IS_LIVE)
_OF = (
    sa.select(replicas)
    .where(replicas.c.stream == sa.bindparam("stream"))
    .order_by(replicas.c.registered_at.desc(), replicas.c.id)
)
_GET = sa.select(replicas).where(_IS_ID)
_IN_SLOT = sa.select(replicas).where(
    replicas.c.stream == sa.bindparam("of_stream"),
    _HAS_SLOT,
)
_LIVE_SINCE = sa.select(replicas.c.stream, replicas.c.registered_at).where(_HAS_SLOT)
_LAUNCHED = (
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
_PROGRESSED_AT = sa.case(
    (
        replicas.c.epoch.is_distinct_from(sa.bindparam("new_epoch", type_=replicas.c.epoch.type)),
        store_now(),
    ),
    else_=replicas.c.progressed_at,
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
        progressed_at=_PROGRESSED_AT,
        heartbeat_at=store_now(),
    )
    .returning(*replicas.c)
)
_END = (
    sa.update(replicas)
    .where(_IS_ID, _IS_LIVE)
    .values(
        state=sa.bindparam("new_state"),
        reason=sa.bindparam("new_reason"),
        ended_at=store_now(),
        ended_by=sa.bindparam("new_ended_by"),
    )
)


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
    ) -> ReplicaRow | None:
        """Reserve the slot for a replica about to start; `None` if a live one has it."""
        insert = self._database.insert(replicas).values(
            id=id,
            stream=stream,
            slot=slot,
            state=ReplicaState.STARTING,
            desired=desired,
            observed=OFF,
            generation=1,
            observed_generation=0,
            snapshot_requested=0,
            snapshot_served=0,
            host=host,
            folder=folder,
            registered_at=store_now(),
            reason="",
            rollout=rollout,
        )
        return self._database.change(
            ReplicaRow, insert.on_conflict_do_nothing().returning(*replicas.c)
        )

    def get(self, id: str) -> ReplicaRow | None:
        """The replica of this id, live or ended."""
        return self._database.find(ReplicaRow, _GET, {"replica": id})

    def of(self, stream: str, *, live: bool = True) -> list[ReplicaRow]:
        """The live replicas of a stream, or all there ever were; newest first."""
        query = _OF.where(_IS_LIVE) if live else _OF
        return self._database.find_all(ReplicaRow, query, {"stream": stream})

    def live(self, stream: str, slot: Slot) -> ReplicaRow | None:
        """The live replica that has the slot."""
        return self._database.find(ReplicaRow, _IN_SLOT, {"of_stream": stream, "of_slot": slot})

    def live_since(self, slot: Slot) -> dict[str, float]:
        """The streams that have a live replica in the slot, and since when; in one query."""
        rows = self._database.fetch(_LIVE_SINCE, {"of_slot": slot})
        return {row["stream"]: float(row["registered_at"]) for row in rows}

    def launched(self, id: str, *, pid: int, pid_started_at: float) -> None:
        """Note the process; its start time tells it from a later one with the same number."""
        values = {"replica": id, "new_pid": pid, "started_at": pid_started_at}
        self._database.execute(_LAUNCHED, values)

    def desire(self, id: str, switches: Switches, *, slot: Slot | None = None) -> int | None:
        """Say which switches the replica should have on; the generation that asks for it.

        With `slot`, only if it is live and has that slot; otherwise `None`, and nothing has changed.
        """
        values = {"replica": id, "switches": switches}
        if slot is not None:
            rows = self._database.execute(_DESIRE.where(_HAS_SLOT), {**values, "of_slot": slot})
            return int(rows[0]["generation"]) if rows else None
        rows = self._database.execute(_DESIRE, values)
        return int(_known(rows, id)["generation"])

    def request_snapshot(self, id: str) -> int:
        """Ask for a snapshot now; it is served when `snapshot_served` reaches this number."""
        rows = self._database.execute(_REQUEST_SNAPSHOT, {"replica": id})
        return int(_known(rows, id)["snapshot_requested"])

    def heartbeat(
        self,
        id: str,
        *,
        state: ReplicaState,
        observed: Switches,
        observed_generation: int,
        snapshot_served: int,
        epoch: int | None,
    ) -> ReplicaRow:
        """Say that the replica lives and what it has on; the row tells it what is desired.

        An ended replica stays ended: the row says so, and the replica should stop.
        """
        if state.ended:
            raise PermanentError(f"a {state} replica has no heartbeat", hint="use `end`")
        values = {
            "replica": id,
            "new_state": state,
            "new_observed": observed,
            "new_generation": observed_generation,
            "new_served": snapshot_served,
            "new_epoch": epoch,
        }
        rows = self._database.execute(_HEARTBEAT, values, durable=False)
        rows = rows or self._database.fetch(_GET, {"replica": id})
        return ReplicaRow(**_known(rows, id))

    def end(
        self,
        id: str,
        state: ReplicaState,
        reason: str,
        *,
        by: EndedBy,
        slot: Slot | None = None,
    ) -> None:
        """Note the end of a replica; the first end counts. With `slot`, only if it has that slot."""
        if not state.ended:
            raise PermanentError(f"{state} is no end", hint="use `heartbeat`")
        values = {"replica": id, "new_state": state, "new_reason": reason, "new_ended_by": by}
        if slot is None:
            self._database.execute(_END, values)
        else:
            self._database.execute(_END.where(_HAS_SLOT), {**values, "of_slot": slot})


def _known(rows: Sequence[sa.RowMapping], id: str) -> sa.RowMapping:
    if not rows:
        raise PermanentError(f"no replica {id!r} in the control store", hint="register it first")
    return rows[0]
