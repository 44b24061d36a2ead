"""The epoch log: append only, decided once, first writer wins; only a gap changes it (`gaps.py`).

The primary key (stream, epoch) is the whole consensus: the loser of a race reads the winner's row.
"""

from dataclasses import asdict

import sqlalchemy as sa

from ft_policies.errors import PermanentError
from resources.control.database import Database
from resources.control.records import Epoch, EpochProposal
from resources.control.schema import epochs
from resources.control.sql import store_now

_OF_STREAM = epochs.c.stream == sa.bindparam("of_stream")
_GET = sa.select(epochs).where(_OF_STREAM, epochs.c.epoch == sa.bindparam("number"))
_LAST = sa.select(epochs).where(_OF_STREAM).order_by(epochs.c.epoch.desc()).limit(1)
_BETWEEN = (
    sa.select(epochs)
    .where(_OF_STREAM, epochs.c.epoch.between(sa.bindparam("first"), sa.bindparam("last")))
    .order_by(epochs.c.epoch)
)

_ROWS_BETWEEN = sa.select(sa.func.coalesce(sa.func.sum(epochs.c.rows), 0).label("rows")).where(
    _OF_STREAM, epochs.c.epoch.between(sa.bindparam("first"), sa.bindparam("last"))
)


class Epochs:
    """The epoch log of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database
        names = [column.name for column in epochs.c if column.name != "decided_at"]
        before = epochs.alias("before")
        follows = sa.exists().where(
            before.c.stream == sa.bindparam("stream"),
            before.c.epoch == sa.bindparam("epoch", type_=sa.BigInteger) - 1,
        )
        proposal = sa.select(
            *(sa.bindparam(name, type_=epochs.c[name].type) for name in names),
            store_now(),
        ).where(sa.or_(sa.bindparam("epoch", type_=sa.BigInteger) == 0, follows))
        self._propose = (
            database.insert(epochs)
            .from_select([*names, "decided_at"], proposal)
            .on_conflict_do_nothing()
            .returning(*epochs.c)
        )

    def propose(self, proposal: EpochProposal) -> Epoch:
        """Decide the epoch; if it was decided before, the decision stands and is returned."""
        rows = self._database.execute(self._propose, asdict(proposal))
        if rows:
            return Epoch(**rows[0])
        winner = self.get(proposal.stream, proposal.epoch)
        if winner is None:
            raise PermanentError(
                f"epoch {proposal.epoch} of {proposal.stream} would leave a hole in the epoch log",
                hint="propose the epoch that follows the last one; a restored control store may be "
                "older than the checkpoint",
            )
        return winner

    def get(self, stream: str, epoch: int) -> Epoch | None:
        """The decision on one epoch."""
        rows = self._database.fetch(_GET, {"of_stream": stream, "number": epoch})
        return Epoch(**rows[0]) if rows else None

    def last(self, stream: str) -> Epoch | None:
        """The newest decided epoch."""
        rows = self._database.fetch(_LAST, {"of_stream": stream})
        return Epoch(**rows[0]) if rows else None

    def between(self, stream: str, first: int, last: int) -> list[Epoch]:
        """The decided epochs from first to last, both included."""
        values = {"of_stream": stream, "first": first, "last": last}
        return [Epoch(**row) for row in self._database.fetch(_BETWEEN, values)]

    def rows_between(self, stream: str, first: int, last: int) -> int:
        """How many rows the epochs from first to last have, both included."""
        values = {"of_stream": stream, "first": first, "last": last}
        return int(self._database.fetch(_ROWS_BETWEEN, values)[0]["rows"])
