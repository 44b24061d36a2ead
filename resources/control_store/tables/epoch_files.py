"""The index of the files that epochs have: asked by name, so that it costs the same however long a stream has run.

It is written in the transaction that decides an epoch, and keeps the names when old epochs are pruned: a name
is used once. Names of files that are gone are forgotten after a long time. How new the newest of them was is kept:
an older file that has no epoch may be one that was read and came back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

import sqlalchemy as sa

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.epoch_records import EpochFile
from holdfast.resources.control_store.records import Epoch
from holdfast.resources.control_store.schema import epoch_files

Item = TypeVar("Item")

_AT_ONCE = 500
_OF_STREAM = epoch_files.c.stream == sa.bindparam("of_stream")
_NAMED = sa.select(epoch_files).where(
    _OF_STREAM, epoch_files.c.name.in_(sa.bindparam("names", expanding=True))
)


class EpochFiles:
    """The assigned files of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def named(self, stream: str, names: Sequence[str]) -> list[EpochFile]:
        """Those of these names that an epoch has, or that are forgotten; other rows are not read."""
        return [
            file
            for portion in _portions(names)
            for file in self._database.find_all(
                EpochFile, _NAMED, {"of_stream": stream, "names": list(portion)}
            )
        ]


def files_of(epoch: Epoch) -> list[EpochFile]:
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
    """Enter the files of an epoch, in the transaction that decides it; `TransientError` if an epoch has one."""
    for portion in _portions(files):
        rows = [asdict(file) for file in portion]
        insert = database.insert(epoch_files).values(rows).on_conflict_do_nothing()
        entered = set(connection.execute(insert.returning(epoch_files.c.name)).scalars())
        used = [file.name for file in portion if file.name not in entered]
        if used:
            raise TransientError(
                f"{used[0]} was assigned to an epoch of {portion[0].stream} before",
                hint="wait: the next proposal leaves it out",
            )


def _portions(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[first : first + _AT_ONCE] for first in range(0, len(items), _AT_ONCE))
