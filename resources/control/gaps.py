"""Gaps: input that is lost for good, skipped so that a stream can go on, each row of it accounted for.

The one change that the epoch log knows: the files of a gap are marked in it as skipped, and its rows
are fewer by theirs. The epochs that were in the ledger by then stay as they were put out; whoever
computes them again has less input, and is not held to their digests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from ft_policies.errors import PermanentError
from resources.control.database import Database
from resources.control.records import Gap
from resources.control.schema import epochs, gaps, ledger, snapshots
from resources.control.sql import store_now

_OF_STREAM = gaps.c.stream == sa.bindparam("of_stream")
_OF = sa.select(gaps).where(_OF_STREAM).order_by(gaps.c.gap)
_LAST_ENTERED = sa.select(sa.func.coalesce(sa.func.max(ledger.c.epoch), -1)).where(
    ledger.c.stream == sa.bindparam("of_stream")
)
_IS_EPOCH = sa.and_(
    epochs.c.stream == sa.bindparam("of_stream"), epochs.c.epoch == sa.bindparam("number")
)
_LOCKED = sa.select(epochs.c.input, epochs.c.rows).where(_IS_EPOCH).with_for_update()
_CHANGE = (
    sa.update(epochs)
    .where(_IS_EPOCH)
    .values(
        input=sa.bindparam("new_input", type_=sa.JSON),
        rows=sa.bindparam("new_rows", type_=sa.BigInteger),
    )
)
_CLOSE = sa.delete(gaps).where(_OF_STREAM, gaps.c.gap == sa.bindparam("number"))


def within_gap(stream: sa.ColumnElement[str], epoch: sa.ColumnElement[int]) -> sa.Exists:
    """Whether an epoch was entered with input that was skipped later, or comes after such a one."""
    return sa.exists().where(
        gaps.c.stream == stream, epoch.between(gaps.c.first_epoch, gaps.c.last_entered)
    )


class Gaps:
    """The gaps of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, stream: str) -> list[Gap]:
        """All gaps of a stream, the oldest first."""
        return [_gap(dict(row)) for row in self._database.fetch(_OF, {"of_stream": stream})]

    def open(self, stream: str, lost: Mapping[int, Sequence[str]], *, run: str) -> int:
        """Skip files of epochs from now on; how many rows that gives up. Said again, it changes nothing."""
        with self._database.write() as connection:
            rows, marked = 0, dict[int, list[str]]()
            for epoch, names in lost.items():
                changed = _mark(connection, stream, epoch, names, skipped=True)
                rows += sum(changed.values())
                marked |= {epoch: sorted(changed)} if changed else {}
            if marked:
                known = [row.gap for row in connection.execute(_OF, {"of_stream": stream})]
                gap = Gap(
                    stream=stream,
                    gap=max(known, default=0) + 1,
                    first_epoch=min(marked),
                    last_entered=connection.execute(
                        _LAST_ENTERED, {"of_stream": stream}
                    ).scalar_one(),
                    files=marked,
                    rows=rows,
                    run=run,
                )
                values = asdict(gap)
                del values["opened_at"]
                connection.execute(sa.insert(gaps).values(**values, opened_at=store_now()))
        return rows

    def close(self, stream: str, *, run: str) -> None:
        """Read what a run has skipped again; an error if something has been made without it."""
        with self._database.write() as connection:
            key = {"of_stream": stream}
            found = [_gap(dict(row)) for row in connection.execute(_OF, key).mappings()]
            for gap in (one for one in found if one.run == run):
                _demand_unused(connection, gap)
                for epoch, names in gap.files.items():
                    _mark(connection, stream, epoch, names, skipped=False)
                connection.execute(_CLOSE, {**key, "number": gap.gap})


def _mark(
    connection: sa.Connection, stream: str, epoch: int, names: Sequence[str], *, skipped: bool
) -> dict[str, int]:
    """Mark files of an epoch that are not marked so yet; the rows of each."""
    key = {"of_stream": stream, "number": epoch}
    row = connection.execute(_LOCKED, key).one()
    turned: dict[str, int] = {}
    for file in row.input["files"]:
        if file["name"] in names and file.get("skipped", False) != skipped:
            file["skipped"], turned[file["name"]] = skipped, file["rows"]
    rows = sum(turned.values())
    change = {"new_input": row.input, "new_rows": row.rows - rows if skipped else row.rows + rows}
    if turned:
        connection.execute(_CHANGE, {**key, **change})
    return turned


def _demand_unused(connection: sa.Connection, gap: Gap) -> None:
    """Neither output nor a snapshot may be without the rows; what a restore has taken back is neither."""
    last = connection.execute(_LAST_ENTERED, {"of_stream": gap.stream}).scalar_one()
    later = sa.select(snapshots.c.id).where(
        snapshots.c.stream == gap.stream,
        snapshots.c.epoch >= gap.first_epoch,
        snapshots.c.created_at > gap.opened_at,
    )
    if last < gap.first_epoch:
        return
    if last > gap.last_entered or connection.execute(later).first() is not None:
        raise PermanentError(
            f"{gap.stream} has gone on without what {gap.run} skipped",
            hint=f"put the files back, `holdfast stop {gap.stream}`, `holdfast restore {gap.stream} "
            f"--epoch {gap.first_epoch - 1}`, and then undo it"
            if gap.first_epoch
            else "nothing is before its first epoch, so there is no way back",
        )


def _gap(row: Mapping[str, Any]) -> Gap:
    files = {
        int(epoch): names for epoch, names in row["files"].items()
    }  # JSON has no numbers as keys
    return Gap(**{**row, "files": files})
