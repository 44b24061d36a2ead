# ruff: noqa: A002 (an id is an id, also as an argument)
"""The catalogue of snapshots: an index for operators and playbooks.

The manifest in the object store is the commit; a row here only says where it is and whether it is usable. Snapshots that
an older history shipped beyond its end, and all of a replica that was rolled back, are not available, whenever
they were recorded.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import SnapshotRow, SnapshotState
from holdfast.resources.control_store.schema import migrations, replicas, restores, snapshots

_KEY = (snapshots.c.stream, snapshots.c.id)
_IS_IT = sa.and_(
    snapshots.c.stream == sa.bindparam("of_stream"), snapshots.c.id == sa.bindparam("of_id")
)
_OF = (
    sa.select(snapshots)
    .where(snapshots.c.stream == sa.bindparam("of_stream"))
    .order_by(snapshots.c.epoch.desc(), snapshots.c.created_at.desc(), snapshots.c.id)
)
_GET = sa.select(snapshots).where(_IS_IT)
_FORGET = sa.delete(snapshots).where(_IS_IT)
_IS_RESTORED_AWAY = sa.exists().where(
    restores.c.stream == snapshots.c.stream,
    restores.c.history > snapshots.c.history,
    restores.c.epoch < snapshots.c.epoch,
    restores.c.begun_at.is_not(None),
)
_IS_ROLLED_BACK = sa.exists().where(
    replicas.c.id == snapshots.c.replica,
    migrations.c.stream == replicas.c.stream,
    migrations.c.rollout == replicas.c.rollout,
    migrations.c.done.is_(False),
)
IS_SUPERSEDED = sa.or_(_IS_RESTORED_AWAY, _IS_ROLLED_BACK)
_AVAILABLE = _OF.where(snapshots.c.state == SnapshotState.AVAILABLE, ~IS_SUPERSEDED)
_NEWEST = _AVAILABLE.limit(1)
_LAST_PROVEN = (
    _OF.where(snapshots.c.proven_at.is_not(None))
    .order_by(None)
    .order_by(snapshots.c.proven_at.desc(), snapshots.c.epoch.desc())
    .limit(1)
)
_MARK = (
    sa.update(snapshots)
    .where(_IS_IT)
    .values(state=sa.bindparam("new_state"), reason=sa.bindparam("new_reason"))
)
_VERIFIED = sa.update(snapshots).where(_IS_IT).values(verified_at=store_now())
_PROVEN = (
    sa.update(snapshots)
    .where(_IS_IT)
    .values(proven_at=store_now(), proven_seconds=sa.bindparam("took_seconds"))
)
_AT_ONCE = 1_000
_DROPPED = SnapshotState.DROPPED
_RECORDED_LATER = ("verified_at", "proven_at", "proven_seconds")


class Snapshots:
    """The catalogue of snapshots of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, row: SnapshotRow) -> None:
        """Insert or update the row of a snapshot; its time of creation stays."""
        values = asdict(row)
        created_at = values.pop("created_at")
        insert = self._database.insert(snapshots).values(
            **values, created_at=created_at or store_now()
        )
        changed: dict[str, sa.ColumnElement[Any]] = {
            n: insert.excluded[n] for n in values if n not in {"stream", "id"}
        }
        for name in _RECORDED_LATER:
            changed[name] = sa.func.coalesce(insert.excluded[name], snapshots.c[name])
        self._database.execute(
            insert.on_conflict_do_update(index_elements=list(_KEY), set_=changed)
        )

    def of(self, stream: str, *, available_only: bool = True) -> list[SnapshotRow]:
        """The snapshots of a stream, newest epoch first."""
        query = _AVAILABLE if available_only else _OF
        return self._database.find_all(SnapshotRow, query, {"of_stream": stream})

    def get(self, stream: str, id: str) -> SnapshotRow | None:
        return self._database.find(SnapshotRow, _GET, {"of_stream": stream, "of_id": id})

    def newest(self, stream: str) -> SnapshotRow | None:
        """The available snapshot of the newest epoch."""
        return self._database.find(SnapshotRow, _NEWEST, {"of_stream": stream})

    def last_proven(self, stream: str) -> SnapshotRow | None:
        """The snapshot that was proven last, even if it was dropped since."""
        return self._database.find(SnapshotRow, _LAST_PROVEN, {"of_stream": stream})

    def mark(self, stream: str, id: str, state: SnapshotState, reason: str) -> None:
        """Set the state of a snapshot, with the reason if it must not be restored."""
        values = {"of_stream": stream, "of_id": id, "new_state": state, "new_reason": reason}
        self._database.execute(_MARK, values)

    def mark_dropped(self, stream: str, reasons: Mapping[str, str]) -> None:
        """Record that snapshots were dropped, each with its reason, in portions."""
        rows = [
            {"of_stream": stream, "of_id": snapshot, "new_state": _DROPPED, "new_reason": reason}
            for snapshot, reason in reasons.items()
        ]
        for first in range(0, len(rows), _AT_ONCE):
            with self._database.write_portion() as connection:
                connection.execute(_MARK, rows[first : first + _AT_ONCE])

    def record_verification(self, stream: str, id: str) -> None:
        """Record that all digests of a snapshot were checked."""
        self._database.execute(_VERIFIED, {"of_stream": stream, "of_id": id})

    def record_proof(self, stream: str, id: str, seconds: float) -> None:
        """Record that a snapshot was proven, and how long it took."""
        values = {"of_stream": stream, "of_id": id, "took_seconds": seconds}
        self._database.execute(_PROVEN, values)

    def forget(self, stream: str, id: str) -> None:
        """Delete the row; the snapshot itself stays."""
        self._database.execute(_FORGET, {"of_stream": stream, "of_id": id})
