"""The index of the files that epochs have: asked by name, so that it costs the same however long a stream has run.

It is written in the transaction that decides an epoch, and keeps the names when old epochs are pruned: a name
is used once. Names of files that are gone are forgotten after a long time. How new the newest of them was is kept:
an older file that has no epoch may be one that was read and came back.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import sqlalchemy as sa

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.epoch_records import EpochFile
from holdfast.resources.control_store.records import EpochProposal
from holdfast.resources.control_store.schema import epoch_files

Item = TypeVar("Item")

_AT_ONCE = 500
_FIELDS = [column.name for column in epoch_files.c]
_OF_STREAM = epoch_files.c.stream == sa.bindparam("of_stream")
_NAMED = sa.select(epoch_files).where(
    _OF_STREAM, epoch_files.c.name.in_(sa.bindparam("names", expanding=True))
)


class EpochFiles:
    """The assigned files of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, stream: str, names: Sequence[str]) -> list[EpochFile]:
        """Those of these names that an epoch has, or that are forgotten; other rows are not read."""
        return [
            file
            for portion in _portions(names)
            for file in self._database.find_all(
                EpochFile, _NAMED, {"of_stream": stream, "names": list(portion)}
            )
        ]


def files_of(epoch: EpochProposal) -> list[EpochFile]:
    """The files that an epoch has by its input; none if its source has no files."""
    return [
        EpochFile(
            stream=epoch.stream,
            name=file["name"],
            epoch=epoch.epoch,
            size=file.get("size"),
            changed_ns=file.get("changed_ns"),
        )
        for file in epoch.input.get("files", ())
    ]


def assign_files(database: Database, connection: sa.Connection, files: Sequence[EpochFile]) -> None:
    """Enter the files of an epoch, in the transaction that decides it; `TransientError` if an epoch has one.

    They may be a hundred thousand after an outage: one statement for all, so that the lock is held for a second.
    """
    if not files:
        return
    insert = database.insert(epoch_files).on_conflict_do_nothing()
    rows = [{name: getattr(file, name) for name in _FIELDS} for file in files]
    entered = connection.execute(insert, rows, execution_options={"preserve_rowcount": True})
    if entered.rowcount < len(rows):
        raise TransientError(
            f"{_find_used(connection, files)} was assigned to an epoch of {files[0].stream} before",
            hint="wait: the next proposal leaves it out",
        )


def _find_used(connection: sa.Connection, files: Sequence[EpochFile]) -> str:
    """The name of a file that another epoch has."""
    stream, epoch = files[0].stream, files[0].epoch
    for portion in _portions([file.name for file in files]):
        values = {"of_stream": stream, "names": list(portion)}
        for row in connection.execute(_NAMED, values):
            if row.epoch != epoch:
                return str(row.name)
    return "one file, named twice,"


def _portions(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[first : first + _AT_ONCE] for first in range(0, len(items), _AT_ONCE))
