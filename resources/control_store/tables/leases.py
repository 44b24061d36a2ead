"""Leases: a row per stream that says which replica is primary, with a token that only grows.

Each verb is one compare-and-set statement, by the store's clock. A replica that cannot read the lease must
behave as if it had lost it.

In a takeover the secondary becomes primary, in one transaction or not at all. It passes what it observed (the
lease, the live primary) and gets the lease only if all of that still holds. No clock decides: a primary that
renewed since has another `renewed_at`, a rival that was faster has another token, a stream that was stopped
since is not desired to run. The stream's row is locked first, so takeovers of one stream queue; conditional updates catch
all other writers, and the unique index on the slot catches a primary that was registered in between.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from holdfast.ft_policies.tiers import PRIMARY
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    Lease,
    ReplicaRow,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.schema import leases, replicas, streams
from holdfast.resources.control_store.tables.replicas import next_generation

_NEW_HOLDER = sa.bindparam("new_holder", type_=sa.Text)
_TTL_SECONDS = sa.bindparam("ttl_seconds", type_=sa.Double)
_IS_MINE = sa.and_(
    leases.c.stream == sa.bindparam("of_stream"),
    leases.c.holder == sa.bindparam("old_holder"),
    leases.c.token == sa.bindparam("old_token"),
)
_GET = sa.select(leases).where(leases.c.stream == sa.bindparam("of_stream"))
_RENEW = (
    sa.update(leases)
    .where(_IS_MINE)
    .values(renewed_at=store_now(), expires_at=store_now() + _TTL_SECONDS)
    .returning(*leases.c)
)
_RELEASE = (
    sa.update(leases)
    .where(_IS_MINE)
    .values(holder=None, expires_at=store_now())
    .returning(leases.c.token)
)
_FENCE = (
    sa.update(leases)
    .where(leases.c.stream == sa.bindparam("of_stream"), leases.c.token == sa.bindparam("seen"))
    .values(holder=None, token=leases.c.token + 1, expires_at=store_now())
    .returning(leases.c.token)
)


class Leases:
    """The table of leases."""

    def __init__(self, database: Database) -> None:
        self._database = database
        kept = sa.and_(leases.c.holder == _NEW_HOLDER, leases.c.expires_at > store_now())
        insert = database.insert(leases).values(
            stream=sa.bindparam("of_stream"),
            holder=_NEW_HOLDER,
            token=1,
            taken_at=store_now(),
            renewed_at=store_now(),
            expires_at=store_now() + _TTL_SECONDS,
        )
        self._take = insert.on_conflict_do_update(
            index_elements=[leases.c.stream],
            set_={
                "holder": _NEW_HOLDER,
                "token": sa.case((kept, leases.c.token), else_=leases.c.token + 1),
                "taken_at": sa.case((kept, leases.c.taken_at), else_=store_now()),
                "renewed_at": store_now(),
                "expires_at": store_now() + _TTL_SECONDS,
            },
            where=sa.or_(
                leases.c.holder.is_(None),
                leases.c.holder == _NEW_HOLDER,
                leases.c.expires_at <= store_now(),
            ),
        ).returning(*leases.c)

    def take(self, stream: str, holder: str, ttl_seconds: float) -> Lease | None:
        """Take the lease if it is free, expired or held by this holder; `None` if another replica holds it."""
        values = {"of_stream": stream, "new_holder": holder, "ttl_seconds": ttl_seconds}
        return self._database.change(Lease, self._take, values)

    def renew(self, lease: Lease, ttl_seconds: float) -> Lease | None:
        """Extend the lease, even an expired one that was not taken since; `None` if it is lost for good."""
        return self._database.change(Lease, _RENEW, {**_mine(lease), "ttl_seconds": ttl_seconds})

    def release(self, lease: Lease) -> bool:
        """Free the lease; false if it was lost before."""
        return bool(self._database.execute(_RELEASE, _mine(lease)))

    def fence(self, stream: str, *, token: int) -> bool:
        """Take the lease from its holder; false if its token is not `token` any more."""
        return bool(self._database.execute(_FENCE, {"of_stream": stream, "seen": token}))

    def get(self, stream: str) -> Lease | None:
        """The lease as it stands; `None` if it was never taken."""
        return self._database.find(Lease, _GET, {"of_stream": stream})


def _mine(lease: Lease) -> dict[str, str | int | None]:
    return {"of_stream": lease.stream, "old_holder": lease.holder, "old_token": lease.token}


_IS_LIVE = replicas.c.ended_at.is_(None)
_OF_STREAM = replicas.c.stream == sa.bindparam("of_stream")
_WANTED = (
    sa.select(streams.c.name)
    .where(streams.c.name == sa.bindparam("of_stream"), streams.c.desired == DesiredState.RUNNING)
    .with_for_update()
)
_LEASE = {
    "holder": sa.bindparam("secondary", type_=sa.Text),
    "taken_at": store_now(),
    "renewed_at": store_now(),
    "expires_at": store_now() + _TTL_SECONDS,
}
_TAKE = (
    sa.update(leases)
    .where(
        leases.c.stream == sa.bindparam("of_stream"),
        leases.c.holder.is_not_distinct_from(sa.bindparam("seen_holder", type_=sa.Text)),
        leases.c.token == sa.bindparam("seen_token"),
        leases.c.renewed_at == sa.bindparam("seen_renewed_at", type_=sa.Double),
    )
    .values(**_LEASE, token=leases.c.token + 1)
    .returning(*leases.c)
)
_FENCE_PRIMARY = (
    sa.update(replicas)
    .where(_OF_STREAM, replicas.c.slot == Slot.PRIMARY, _IS_LIVE)
    .values(
        state=ReplicaState.FENCED,
        reason=sa.bindparam("new_reason"),
        ended_at=store_now(),
        ended_by=EndedBy.TAKEOVER,
    )
    .returning(replicas.c.id)
)
_PROMOTE = (
    sa.update(replicas)
    .where(
        _OF_STREAM,
        replicas.c.id == sa.bindparam("secondary"),
        replicas.c.slot == Slot.SECONDARY,
        _IS_LIVE,
    )
    .values(slot=Slot.PRIMARY, desired=PRIMARY, generation=next_generation(replicas.c.stream))
    .returning(replicas.c.id)
)


_FENCE_SEEN = _FENCE.where(leases.c.renewed_at == sa.bindparam("seen_renewed_at", type_=sa.Double))
_END_SEEN = (
    sa.update(replicas)
    .where(replicas.c.id == sa.bindparam("primary"), _IS_LIVE)
    .values(
        state=ReplicaState.FENCED,
        reason=sa.bindparam("new_reason"),
        ended_at=store_now(),
        ended_by=EndedBy.PLAYBOOK,
    )
    .returning(replicas.c.id)
)
_END_SILENT = _END_SEEN.where(
    replicas.c.heartbeat_at.is_not_distinct_from(sa.bindparam("seen_sign", type_=sa.Double))
)
_END_STUCK = _END_SEEN.where(
    replicas.c.progressed_at.is_not_distinct_from(sa.bindparam("seen_sign", type_=sa.Double))
)


class _NotAsSeenError(Exception):
    """The rows are not as observed: roll back."""


class Takeovers:
    """How a secondary becomes primary."""

    def __init__(self, database: Database) -> None:
        self._database = database
        insert = database.insert(leases).values(**_LEASE, stream=sa.bindparam("of_stream"), token=1)
        self._take_first = insert.on_conflict_do_nothing().returning(*leases.c)

    def take(
        self,
        stream: str,
        secondary: str,
        *,
        primary: str | None,
        observed: Lease | None,
        ttl_seconds: float,
        reason: str,
    ) -> Lease | None:
        """Make the secondary primary and fence the replica it replaces, if the rows are still as observed.

        `None` if nothing was changed. After a `TransientError` the takeover may have happened: check
        whether this secondary holds the lease.
        """
        try:
            with self._database.write() as connection:
                _require_row(connection.execute(_WANTED, {"of_stream": stream}))
                row = self._lease(connection, stream, secondary, observed, ttl_seconds)
                _fence(connection, stream, primary, reason)
                _promote(connection, stream, secondary)
        except _NotAsSeenError:
            return None
        return Lease(**row)

    def fence_silent(self, primary: ReplicaRow, seen: Lease | None, *, reason: str) -> bool:
        """Take lease and slot from a silent primary, unless it has sent a sign of life since it was observed."""
        return self._fence_seen(
            primary, seen, (_FENCE_SEEN, _END_SILENT), primary.heartbeat_at, reason
        )

    def fence_stuck(self, primary: ReplicaRow, seen: Lease | None, *, reason: str) -> bool:
        """Take lease and slot from a stuck primary, unless it has finished an epoch since it was observed."""
        return self._fence_seen(primary, seen, (_FENCE, _END_STUCK), primary.progressed_at, reason)

    def _fence_seen(
        self,
        primary: ReplicaRow,
        seen: Lease | None,
        statements: tuple[Executable, Executable],
        sign: float | None,
        reason: str,
    ) -> bool:
        fence, end = statements
        row = {"primary": primary.id, "new_reason": reason, "seen_sign": sign}
        try:
            with self._database.write() as connection:
                if seen is not None and seen.holder == primary.id:
                    lease = {"of_stream": primary.stream, "seen": seen.token}
                    _require_row(
                        connection.execute(fence, {**lease, "seen_renewed_at": seen.renewed_at})
                    )
                _require_row(connection.execute(end, row))
        except _NotAsSeenError:
            return False
        return True

    def _lease(
        self,
        connection: sa.Connection,
        stream: str,
        secondary: str,
        observed: Lease | None,
        ttl_seconds: float,
    ) -> sa.RowMapping:
        new = {"of_stream": stream, "secondary": secondary, "ttl_seconds": ttl_seconds}
        if observed is None:
            return _require_row(connection.execute(self._take_first, new))
        old = {
            "seen_holder": observed.holder,
            "seen_token": observed.token,
            "seen_renewed_at": observed.renewed_at,
        }
        return _require_row(connection.execute(_TAKE, {**new, **old}))


def _fence(connection: sa.Connection, stream: str, primary: str | None, reason: str) -> None:
    fenced = connection.execute(
        _FENCE_PRIMARY, {"of_stream": stream, "new_reason": reason}
    ).scalars()
    if any(replica != primary for replica in fenced):
        raise _NotAsSeenError


def _promote(connection: sa.Connection, stream: str, secondary: str) -> None:
    try:
        _require_row(connection.execute(_PROMOTE, {"of_stream": stream, "secondary": secondary}))
    except sa.exc.IntegrityError as error:  # a primary was registered just now
        raise _NotAsSeenError from error


def _require_row(result: sa.CursorResult[Any]) -> sa.RowMapping:
    row = result.mappings().one_or_none()
    if row is None:
        raise _NotAsSeenError
    return row
