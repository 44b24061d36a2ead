"""Forks: a new stream that begins with the epochs of another, as they were decided and committed."""

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from resources.control.database import Database
from resources.control.gaps import copy_gaps
from resources.control.schema import epochs, ledger


class Forks:
    """Copies within the epoch log (with its gaps) and the ledger; what is copied from is only read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._copies = [self._copy_in(table) for table in (epochs, ledger)]

    def copy(self, stream: str, *, into: str, through_epoch: int) -> int:
        """Give a new stream the epochs of another up to one; how many entries of the ledger came new."""
        values = {"of_stream": stream, "into_stream": into, "last_epoch": through_epoch}
        with self._database.write() as connection:
            copied = [connection.execute(copy, values).all() for copy in self._copies]
            copy_gaps(connection, stream, into=into, through_epoch=through_epoch)
        return len(copied[-1])

    def _copy_in(self, table: sa.Table) -> Executable:
        names = [column.name for column in table.c if column.name != "stream"]
        rows = sa.select(
            sa.bindparam("into_stream", type_=sa.Text), *(table.c[name] for name in names)
        ).where(
            table.c.stream == sa.bindparam("of_stream"),
            table.c.epoch <= sa.bindparam("last_epoch"),
        )
        copy = self._database.insert(table).from_select(["stream", *names], rows)
        return copy.on_conflict_do_nothing().returning(table.c.epoch)
