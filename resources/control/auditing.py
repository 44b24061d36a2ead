"""What only an audit asks of epoch log and ledger, and the one thing that a repair may take back."""

import sqlalchemy as sa

from resources.control.database import Database
from resources.control.schema import epochs, ledger, ledger_copies

_before = epochs.alias("before")
_AFTER_HOLES = (
    sa.select(epochs.c.epoch)
    .outerjoin(
        _before,
        sa.and_(_before.c.stream == epochs.c.stream, _before.c.epoch == epochs.c.epoch - 1),
    )
    .where(
        epochs.c.stream == sa.bindparam("of_stream"),
        epochs.c.epoch > 0,
        _before.c.epoch.is_(None),
    )
    .order_by(epochs.c.epoch)
)
_LAST_BEFORE = sa.select(sa.func.coalesce(sa.func.max(epochs.c.epoch), -1).label("epoch")).where(
    epochs.c.stream == sa.bindparam("of_stream"), epochs.c.epoch < sa.bindparam("number")
)
_UNKNOWN = (
    sa.select(ledger.c.epoch)
    .outerjoin(
        epochs, sa.and_(epochs.c.stream == ledger.c.stream, epochs.c.epoch == ledger.c.epoch)
    )
    .where(ledger.c.stream == sa.bindparam("of_stream"), epochs.c.epoch.is_(None))
    .order_by(ledger.c.epoch)
)
_IS_IT = (
    ledger.c.stream == sa.bindparam("of_stream"),
    ledger.c.epoch == sa.bindparam("number"),
    ledger.c.replica == sa.bindparam("of_replica"),
)
_WITHDRAW_COPIES = sa.delete(ledger_copies).where(
    ledger_copies.c.stream == sa.bindparam("of_stream"),
    ledger_copies.c.epoch == sa.bindparam("number"),
    sa.exists().where(*_IS_IT),
)
_WITHDRAW = sa.delete(ledger).where(*_IS_IT)


class Auditing:
    """Epoch log and ledger, held against each other."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def undecided(self, stream: str) -> list[int]:
        """The epochs that are missing in the epoch log before its last."""
        found: list[int] = []
        for row in self._database.fetch(_AFTER_HOLES, {"of_stream": stream}):
            values = {"of_stream": stream, "number": row["epoch"]}
            last = int(self._database.fetch(_LAST_BEFORE, values)[0]["epoch"])
            found += range(last + 1, row["epoch"])
        return found

    def unknown(self, stream: str) -> list[int]:
        """The epochs in the ledger that are not in the epoch log."""
        rows = self._database.fetch(_UNKNOWN, {"of_stream": stream})
        return [int(row["epoch"]) for row in rows]

    def withdraw(self, stream: str, epoch: int, replica: str) -> None:
        """Take back what a repair has entered for a replica, and what others compared with it."""
        values = {"of_stream": stream, "number": epoch, "of_replica": replica}
        with self._database.write() as connection:
            connection.execute(_WITHDRAW_COPIES, values)
            connection.execute(_WITHDRAW, values)
