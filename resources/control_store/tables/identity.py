"""What belongs to the project: its id, its home folder, the tables of each stream, and the buckets that can hold one.

Each is recorded once, by the first process that asks; a process that finds another one recorded refuses to work.
"""

from collections.abc import Collection
from uuid import uuid4

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.epoch_records import OutputRow
from holdfast.resources.control_store.records import IdentityRow
from holdfast.resources.control_store.schema import identity, outputs

_PROJECT, _HOME, _CONDITIONAL_WRITES = "project", "home", "conditional_writes"
_GET = sa.select(identity).where(identity.c.scope == sa.bindparam("of_scope"))
_OUTPUT = sa.select(outputs).where(outputs.c.stream == sa.bindparam("of_stream"))
_OWNER = (
    sa.select(outputs)
    .where(
        outputs.c.table_id.in_(sa.bindparam("ids", expanding=True)),
        outputs.c.stream != sa.bindparam("of_stream"),
    )
    .order_by(outputs.c.stream)
)
_MOVE = (
    sa.update(outputs)
    .where(outputs.c.stream == sa.bindparam("of_stream"))
    .values(path=sa.bindparam("new_path"), table_id=sa.bindparam("new_id"))
)


class Identity:
    """The table with the ids of the project and of its home folder."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def project_id(self) -> str:
        """The id of the project to which this control store belongs; of several processes one makes it."""
        return self._ensure(_PROJECT, uuid4().hex)

    def bind_home(self, home: str) -> str:
        """Record the id of the home folder with the local folders of the project; the first stands."""
        return self._ensure(_HOME, home)

    def has_conditional_writes(self, bucket: str) -> bool:
        """Whether a bucket was tried, and refuses to overwrite an object if asked to."""
        scope = f"{_CONDITIONAL_WRITES}/{bucket}"
        return self._database.find(IdentityRow, _GET, {"of_scope": scope}) is not None

    def record_conditional_writes(self, bucket: str) -> None:
        """Record that a bucket refuses to overwrite an object if asked to."""
        self._ensure(f"{_CONDITIONAL_WRITES}/{bucket}", bucket)

    def _ensure(self, scope: str, value: str) -> str:
        row = self._database.find(IdentityRow, _GET, {"of_scope": scope})
        if row is None:
            made = self._database.insert(identity).values(scope=scope, id=value)
            self._database.execute(made.on_conflict_do_nothing(index_elements=[identity.c.scope]))
            row = self._database.find(IdentityRow, _GET, {"of_scope": scope})
        assert row is not None  # noqa: S101 - nothing deletes it
        return row.id


def dead_letters_of(stream: str) -> str:
    """The name under which the table of a stream's dead letters is recorded; no stream has such a name."""
    return f"{stream}/dead_letters"


class Outputs:
    """Which table has the output of each stream, and which its dead letters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, stream: str) -> OutputRow | None:
        """The table of a stream; `None` before its first commit."""
        return self._database.find(OutputRow, _OUTPUT, {"of_stream": stream})

    def find_other(self, stream: str, table_ids: Collection[str]) -> OutputRow | None:
        """Another stream for which a table of one of these names or ids is recorded."""
        values = {"of_stream": stream, "ids": list(table_ids)}
        return self._database.find(OutputRow, _OWNER, values)

    def record(self, stream: str, *, table_id: str, path: str) -> OutputRow:
        """Record the table of a stream, unless one is recorded; returns the one that is."""
        made = self._database.insert(outputs).values(
            stream=stream, table_id=table_id, path=path, recorded_at=store_now()
        )
        self._database.execute(made.on_conflict_do_nothing(index_elements=[outputs.c.stream]))
        row = self.get(stream)
        assert row is not None  # noqa: S101 - nothing deletes it
        return row

    def move(self, stream: str, *, path: str, table_id: str) -> None:
        """Record that a stream has its table at another path, or another one for its dead letters."""
        values = {"of_stream": stream, "new_path": path, "new_id": table_id}
        self._database.execute(_MOVE, values)
