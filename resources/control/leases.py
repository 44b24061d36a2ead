"""Leases: a row per stream that says who is primary, with a token that only grows.

Each verb is one compare-and-set statement, judged by the store's clock. Whoever cannot read the
lease must behave as if it were lost.
"""

import sqlalchemy as sa

from resources.control.database import Database
from resources.control.records import Lease
from resources.control.schema import leases
from resources.control.sql import store_now

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
        """Take the lease if it is free, run out or mine already; `None` if another holds it."""
        values = {"of_stream": stream, "new_holder": holder, "ttl_seconds": ttl_seconds}
        rows = self._database.execute(self._take, values)
        return Lease(**rows[0]) if rows else None

    def renew(self, lease: Lease, ttl_seconds: float) -> Lease | None:
        """Hold it for longer, also late if nobody took it since; `None` means lost for good."""
        rows = self._database.execute(_RENEW, {**_mine(lease), "ttl_seconds": ttl_seconds})
        return Lease(**rows[0]) if rows else None

    def release(self, lease: Lease) -> bool:
        """Free the lease; false if it was lost before."""
        return bool(self._database.execute(_RELEASE, _mine(lease)))

    def fence(self, stream: str, *, token: int) -> bool:
        """Take the lease from whoever holds it under this token; false if the token moved on."""
        return bool(self._database.execute(_FENCE, {"of_stream": stream, "seen": token}))

    def get(self, stream: str) -> Lease | None:
        """The lease as it stands; `None` if it was never taken."""
        rows = self._database.fetch(_GET, {"of_stream": stream})
        return Lease(**rows[0]) if rows else None


def _mine(lease: Lease) -> dict[str, str | int | None]:
    return {"of_stream": lease.stream, "old_holder": lease.holder, "old_token": lease.token}
