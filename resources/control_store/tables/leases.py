"""Leases: a row per stream that says which replica is primary, with a token that only grows.

Each verb is one compare-and-set statement, by the store's clock. A replica that cannot read the lease must
behave as if it had lost it.

In a takeover the secondary becomes primary, in one transaction or not at all. It passes what it observed (the
lease, the live primary) and gets the lease only if all of that still holds. No clock decides: a primary that
renewed since has another `renewed_at`, a rival that was faster has another token, a stream that was stopped
since is not desired to run. The stream's row is locked first, so takeovers of one stream queue; conditional updates catch
all other writers, and the unique index on the slot catches a primary that was registered in between.
"""

from dataclasses import dataclass
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
from holdfast.resources.control_store.tables.replicas import (
    END,
    Sign,
    as_observed,
    next_generation,
)

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
    .values(
        taken_at=sa.func.coalesce(
            store_now() - sa.bindparam("held_seconds", type_=sa.Double), leases.c.taken_at
        ),
        renewed_at=store_now(),
        expires_at=store_now() + _TTL_SECONDS,
    )
    .returning(*leases.c)
)
_RELEASE = (
    sa.update(leases)
    .where(_IS_MINE)
    .values(holder=None, expires_at=store_now())
    .returning(leases.c.token)
)
_FENCE_ANY = (
    sa.update(leases)
    .where(leases.c.stream == sa.bindparam("of_stream"))
    .values(holder=None, token=leases.c.token + 1, expires_at=store_now())
)
_FENCE = _FENCE_ANY.where(leases.c.token == sa.bindparam("seen")).returning(leases.c.token)
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
_IS_OLD_RENEWAL = leases.c.renewed_at == sa.bindparam("seen_renewed_at", type_=sa.Double)
_END = END.returning(replicas.c.id)


class Leases:
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

    def renew(
        self, lease: Lease, ttl_seconds: float, *, held_seconds: float | None = None
    ) -> Lease | None:
        """Extend the lease, even an expired one that was not taken since; `None` if it is lost for good.

        `held_seconds` counts since it was taken, on the holder's monotonic clock: `taken_at` follows the store's clock.
        """
        values = {**_mine(lease), "ttl_seconds": ttl_seconds, "held_seconds": held_seconds}
        return self._database.change(Lease, _RENEW, values)

    def release(self, lease: Lease) -> bool:
        """Free the lease; false if it was lost before."""
        return bool(self._database.execute(_RELEASE, _mine(lease)))

    def get(self, stream: str) -> Lease | None:
        """The lease as it stands; `None` if it was never taken."""
        return self._database.find(Lease, _GET, {"of_stream": stream})


def _mine(lease: Lease) -> dict[str, str | int | None]:
    return {"of_stream": lease.stream, "old_holder": lease.holder, "old_token": lease.token}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unless:
    """The condition of a fence: it is not done if the primary has given this sign since it was observed."""

    sign: Sign
    primary: ReplicaRow
    lease: Lease | None


class _NotAsSeenError(Exception):
    """The rows are not as observed: roll back."""


class Takeovers:
    """How a primary loses lease and slot: to a secondary that takes over, or to a playbook that fences it."""

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

    def fence(
        self,
        primary: str,
        *,
        stream: str,
        reason: str,
        token: int | None = None,
        unless: Unless | None = None,
        state: ReplicaState = ReplicaState.FENCED,
        by: EndedBy = EndedBy.PLAYBOOK,
    ) -> bool | None:
        """Take the lease from a primary if it holds it, and its slot; return whether the lease was taken.

        With `token` only the observed lease is taken. With `unless` nothing is changed, and `None` is returned, if
        the primary has given that sign of life, or has ended.
        """
        end = {"replica": primary, "new_state": state, "new_reason": reason, "new_ended_by": by}
        try:
            with self._database.write() as connection:
                if unless is None:
                    taken = _fence_holder(connection, stream, primary, token)
                    connection.execute(_END, end)
                else:
                    taken = _fence_observed(connection, unless)
                    _require_row(connection.execute(*_end_observed(unless, end)))
        except _NotAsSeenError:
            return None
        return taken

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


def fence_lease(connection: sa.Connection, stream: str) -> None:
    """Take the lease of a stream from its holder, whichever that is."""
    connection.execute(_FENCE_ANY, {"of_stream": stream})


def _fence_holder(connection: sa.Connection, stream: str, primary: str, token: int | None) -> bool:
    lease = connection.execute(_GET, {"of_stream": stream}).mappings().one_or_none()
    if lease is None or lease["holder"] != primary:
        return False
    observed = {"of_stream": stream, "seen": lease["token"] if token is None else token}
    return connection.execute(_FENCE, observed).first() is not None


def _fence_observed(connection: sa.Connection, unless: Unless) -> bool:
    lease = unless.lease
    if lease is None or lease.holder != unless.primary.id:
        return False
    observed = {"of_stream": lease.stream, "seen": lease.token}
    if unless.sign is Sign.EPOCH:
        _require_row(connection.execute(_FENCE, observed))
    else:
        observed["seen_renewed_at"] = lease.renewed_at
        _require_row(connection.execute(_FENCE.where(_IS_OLD_RENEWAL), observed))
    return True


def _end_observed(unless: Unless, end: dict[str, Any]) -> tuple[Executable, dict[str, Any]]:
    """End the primary if its sign of life is still the observed one."""
    condition, observed = as_observed(unless.primary, unless.sign)
    return _END.where(condition), {**end, **observed}


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
