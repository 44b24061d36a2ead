"""The id of the project: made once, by the first process that asks for it."""

from uuid import uuid4

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.records import IdentityRow
from holdfast.resources.control_store.schema import identity

_SCOPE = "project"
_GET = sa.select(identity).where(identity.c.scope == _SCOPE)


class Identity:
    """The table with the id of the project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def project_id(self) -> str:
        """The id of the project to which this control store belongs; of several processes one makes it."""
        row = self._database.find(IdentityRow, _GET)
        if row is None:
            made = self._database.insert(identity).values(scope=_SCOPE, id=uuid4().hex)
            self._database.execute(made.on_conflict_do_nothing(index_elements=[identity.c.scope]))
            row = self._database.find(IdentityRow, _GET)
        assert row is not None  # noqa: S101 - nothing deletes it
        return row.id
