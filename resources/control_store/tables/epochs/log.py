"""The epoch log: append only, decided once, first writer wins; only a gap changes it.

The primary key (stream, epoch) is the whole consensus: the loser of a race reads the winner's row.

A gap is input that is skipped, so that a stream can continue: it is lost for good, or the guarantee `gap` allows to
leave it out after an outage. Each skipped row is counted, and the files are marked in the epoch log as skipped. For
lost input the row counts of its epochs are reduced. The epochs that were in the ledger by then keep their output; a
replica that computes them again has less input, so its digests are not compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.epoch_records import (
    LOST_STATE,
    Gap,
    LostCommitError,
    RowsByFile,
)
from holdfast.resources.control_store.records import (
    Epoch,
    EpochProposal,
)
from holdfast.resources.control_store.schema import epoch_floors, epochs, gaps, ledger
from holdfast.resources.control_store.tables.epochs.files import assign_files, files_of
from holdfast.resources.control_store.tables.retention import first_kept_epoch
from holdfast.resources.control_store.tables.streams import is_stopped_locked

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

_FIRST_KEPT = sa.select(first_kept_epoch(sa.bindparam("of_stream", type_=sa.Text)).label("first"))


def count_skipped_rows(taken: Mapping[str, Any]) -> RowsByFile:
    """The rows that a proposed input skips, by the names of their files; a source without files has no names."""
    files = {
        file["name"]: int(file["rows"]) for file in taken.get("files", ()) if file.get("skipped")
    }
    return files or ({"": int(taken["skipped_rows"])} if taken.get("skipped_rows") else {})


class Epochs:
    """The epoch log of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database
        names = [column.name for column in epochs.c if column.name != "decided_at"]
        before = epochs.alias("before")
        stream = sa.bindparam("stream", type_=sa.Text)
        number = sa.bindparam("epoch", type_=sa.BigInteger)
        after = sa.bindparam("after_decided_at", type_=sa.Double)
        follows = sa.exists().where(
            before.c.stream == stream,
            before.c.epoch == number - 1,
            before.c.decided_at == sa.func.coalesce(after, before.c.decided_at),
        )
        proposal = sa.select(
            *(sa.bindparam(name, type_=epochs.c[name].type) for name in names),
            store_now(),
        ).where(sa.or_(sa.and_(number == 0, first_kept_epoch(stream) == 0), follows))
        self._propose = (
            database.insert(epochs)
            .from_select([*names, "decided_at"], proposal)
            .on_conflict_do_nothing()
            .returning(*epochs.c)
        )

    def propose(self, proposal: EpochProposal, *, after: Epoch | None = None) -> Epoch:
        """Decide the epoch; if it was decided before, returns that decision.

        `after` is the decision that the proposal continues from: `LostCommitError` if the epoch log has lost it, also
        if it has another one by now. `PermanentError` if the epoch was pruned.
        """
        decided_at = None if after is None else after.decided_at
        values = {**asdict(proposal), "after_decided_at": decided_at}
        decided = self._decide(proposal, values) or self.get(proposal.stream, proposal.epoch)
        if decided is None:
            raise self.missing(proposal.stream, proposal.epoch)
        return decided

    def missing(self, stream: str, epoch: int) -> PermanentError:
        """The error for an epoch that can be neither read nor decided: it is pruned, or a `LostCommitError`."""
        first = int(self._database.fetch(_FIRST_KEPT, {"of_stream": stream})[0]["first"])
        if 0 <= epoch < first:
            return PermanentError(
                f"epoch {epoch} of {stream} cannot be computed again: epochs before {first} are pruned",
                hint=f"restore a snapshot of epoch {first} or later: `holdfast snapshots list {stream}` shows them",
            )
        return LostCommitError(
            f"epoch {epoch} of {stream} cannot be decided: the epoch before it is not in the epoch log any more, "
            "or was decided again",
            hint="check whether the control store was restored from a backup that is older than the checkpoint",
        )

    def _decide(self, proposal: EpochProposal, values: Mapping[str, Any]) -> Epoch | None:
        skipped = count_skipped_rows(proposal.input)
        if not (skipped or proposal.input.get("files")):
            return self._database.change(Epoch, self._propose, values)
        files = files_of(proposal)
        with self._database.write() as connection:
            row = connection.execute(self._propose, values).mappings().first()
            decided = None if row is None else Epoch(**row)
            if decided is not None:
                assign_files(self._database, connection, files)
                if skipped:
                    _insert_gap(connection, decided, skipped)
        return decided

    def get(self, stream: str, epoch: int) -> Epoch | None:
        return self._database.find(Epoch, _GET, {"of_stream": stream, "number": epoch})

    def last(self, stream: str) -> Epoch | None:
        return self._database.find(Epoch, _LAST, {"of_stream": stream})

    def between(self, stream: str, first: int, last: int) -> list[Epoch]:
        """The decided epochs from first to last, both included."""
        values = {"of_stream": stream, "first": first, "last": last}
        return self._database.find_all(Epoch, _BETWEEN, values)

    def rows_between(self, stream: str, first: int, last: int) -> int:
        """How many rows the epochs from first to last have, both included."""
        values = {"of_stream": stream, "first": first, "last": last}
        return int(self._database.fetch(_ROWS_BETWEEN, values)[0]["rows"])


_GAPS_OF_STREAM = gaps.c.stream == sa.bindparam("of_stream")
_OF = sa.select(gaps).where(_GAPS_OF_STREAM).order_by(gaps.c.gap)
_LAST_ENTERED = sa.select(sa.func.coalesce(sa.func.max(ledger.c.epoch), -1)).where(
    ledger.c.stream == sa.bindparam("of_stream")
)
_IS_EPOCH = sa.and_(
    epochs.c.stream == sa.bindparam("of_stream"), epochs.c.epoch == sa.bindparam("number")
)
_INPUT = sa.select(epochs.c.input, epochs.c.rows).where(_IS_EPOCH)
_CHANGE = (
    sa.update(epochs)
    .where(_IS_EPOCH)
    .values(
        input=sa.bindparam("new_input", type_=sa.JSON),
        rows=sa.bindparam("new_rows", type_=sa.BigInteger),
    )
)
_PRUNED_ROWS = sa.select(epoch_floors.c.rows).where(
    epoch_floors.c.stream == sa.bindparam("of_stream")
)
_ROWS_THROUGH = sa.select(
    sa.func.coalesce(sa.func.sum(epochs.c.rows), 0)
    + sa.func.coalesce(_PRUNED_ROWS.scalar_subquery(), 0)
).where(epochs.c.stream == sa.bindparam("of_stream"), epochs.c.epoch <= sa.bindparam("last"))
_CLOSE = sa.delete(gaps).where(_GAPS_OF_STREAM, gaps.c.gap == sa.bindparam("number"))
_SHORTEN = (
    sa.update(gaps)
    .where(_GAPS_OF_STREAM, gaps.c.last_entered > sa.bindparam("last_epoch"))
    .values(last_entered=sa.bindparam("last_epoch", type_=sa.BigInteger))
)


def is_within_gap(stream: sa.ColumnElement[str], epoch: sa.ColumnElement[int]) -> sa.Exists:
    """Whether an epoch was entered with input that was skipped later, or comes after such a one."""
    return sa.exists().where(
        gaps.c.stream == stream, epoch.between(gaps.c.first_epoch, gaps.c.last_entered)
    )


def shorten_gaps(connection: sa.Connection, stream: str, last_epoch: int) -> None:
    """End gaps at an epoch after a restore: later epochs are computed again, and their digests count."""
    connection.execute(_SHORTEN, {"of_stream": stream, "last_epoch": last_epoch})


def copy_gaps(connection: sa.Connection, stream: str, *, into: str, through_epoch: int) -> None:
    """Give a fork the part of the gaps that is in its past."""
    present = {gap.gap for gap in _gaps(connection, into)}
    for gap in _gaps(connection, stream):
        files = {epoch: names for epoch, names in gap.files.items() if epoch <= through_epoch}
        if files and gap.gap not in present:
            last = min(gap.last_entered, through_epoch)
            _insert(connection, replace(gap, stream=into, files=files, last_entered=last))


class Gaps:
    """The gaps of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, stream: str) -> list[Gap]:
        """All gaps of a stream, the oldest first."""
        return self._database.find_all(Gap, _OF, {"of_stream": stream})

    def open(self, stream: str, lost: Mapping[int, Sequence[str]], *, run: str) -> int:
        """Skip files of epochs from now on; returns the number of lost rows. It may be repeated."""
        with self._database.write() as connection:
            self._require_stopped(connection, stream)
            marked = {
                epoch: _mark(connection, stream, epoch, names, skipped=True)
                for epoch, names in lost.items()
            }
            files = {epoch: rows for epoch, rows in marked.items() if rows}
            if not files:
                return 0
            gap = Gap(
                stream=stream,
                gap=_next_gap(connection, stream),
                first_epoch=min(files),
                last_entered=_last_entered(connection, stream),
                files=files,
                run=run,
            )
            _insert(connection, gap)
        return gap.rows

    def give_up_state(self, stream: str, *, dry_run: bool = False) -> Gap:
        """Let a stopped stream whose snapshots are lost continue after its last entered epoch, with empty state.

        Once it has gone on, a repeated call begins after the newest epoch again: its state is lost again.
        """
        with self._database.write() as connection:
            self._require_stopped(connection, stream)
            last = _last_entered(connection, stream)
            before = [g for g in _gaps(connection, stream) if g.is_of_state]
            if before and before[-1].last_entered == last:
                return before[-1]
            gap = Gap(
                stream=stream,
                gap=_next_gap(connection, stream),
                first_epoch=0,
                last_entered=last,
                files={last: {LOST_STATE: _rows_entered(connection, stream)}},
                run="",
            )
            if not dry_run:
                _insert(connection, gap)
        return gap

    def close(self, stream: str, *, run: str) -> None:
        """Undo the gaps that a run opened; `PermanentError` if later output was made without that input."""
        with self._database.write() as connection:
            self._require_stopped(connection, stream)
            for gap in (gap for gap in _gaps(connection, stream) if gap.run == run):
                if _last_entered(connection, stream) > gap.last_entered:
                    raise gap_in_use_error(gap)
                for epoch, names in gap.files.items():
                    _mark(connection, stream, epoch, list(names), skipped=False)
                connection.execute(_CLOSE, {"of_stream": stream, "number": gap.gap})

    def _require_stopped(self, connection: sa.Connection, stream: str) -> None:
        if not is_stopped_locked(connection, stream):
            raise PermanentError(
                f"the input of {stream} cannot be changed: it is running",
                hint=f"run `holdfast stop {stream}` first",
            )


def gap_in_use_error(gap: Gap) -> PermanentError:
    """The error for a gap that cannot be closed: later output was made without its input."""
    return PermanentError(
        f"the gap of {gap.run} cannot be closed: {gap.stream} has committed epochs without that input",
        hint=f"put the files back, run `holdfast restore {gap.stream} --epoch {gap.first_epoch - 1}`, then "
        f"`holdfast stop {gap.stream}` if that has started it, and undo the repair again"
        if gap.first_epoch
        else "keep the gap: it begins with the first epoch, so there is no epoch to restore to",
    )


def _gaps(connection: sa.Connection, stream: str) -> list[Gap]:
    rows = connection.execute(_OF, {"of_stream": stream}).mappings()
    return [Gap(**row) for row in rows]


def _last_entered(connection: sa.Connection, stream: str) -> int:
    return int(connection.execute(_LAST_ENTERED, {"of_stream": stream}).scalar_one())


def _rows_entered(connection: sa.Connection, stream: str) -> int:
    """How many rows the epochs up to the last entered one have, the pruned ones among them."""
    values = {"of_stream": stream, "last": _last_entered(connection, stream)}
    return int(connection.execute(_ROWS_THROUGH, values).scalar_one())


def _next_gap(connection: sa.Connection, stream: str) -> int:
    return max((gap.gap for gap in _gaps(connection, stream)), default=0) + 1


def _insert_gap(connection: sa.Connection, epoch: Epoch, skipped: RowsByFile) -> None:
    """Count input that an epoch skips when it is decided; no output contains it."""
    gap = Gap(
        stream=epoch.stream,
        gap=_next_gap(connection, epoch.stream),
        first_epoch=epoch.epoch,
        last_entered=epoch.epoch - 1,
        files={epoch.epoch: skipped},
        run=epoch.proposer,
    )
    _insert(connection, gap)


def _insert(connection: sa.Connection, gap: Gap) -> None:
    values = asdict(gap)
    del values["opened_at"]
    connection.execute(sa.insert(gaps).values(**values, opened_at=store_now()))


def _mark(
    connection: sa.Connection, stream: str, epoch: int, names: Sequence[str], *, skipped: bool
) -> dict[str, int]:
    """Mark files of an epoch that are not marked so yet; returns the rows of each.

    An old epoch log does not have the rows of single files: the first lost file counts for its epoch.
    """
    key = {"of_stream": stream, "number": epoch}
    row = connection.execute(_INPUT, key).one_or_none()
    if row is None:  # pruned: it is never computed again
        return {}
    rows, marked = row.rows, dict[str, int]()
    for file in row.input["files"]:
        if file["name"] in names and file.get("skipped", False) != skipped:
            lost = marked[file["name"]] = file.setdefault("rows", rows)
            file["skipped"], rows = skipped, rows - lost if skipped else rows + lost
    if marked:
        connection.execute(_CHANGE, {**key, "new_input": row.input, "new_rows": rows})
    return marked
