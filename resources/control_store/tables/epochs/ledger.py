"""The ledger: whose output of an epoch counts, and whether the others produced the same.

The first commit of an epoch stands. Every replica's own rows and digest are kept beside it; a copy
that ever differed stays on record, because it means a job that is not deterministic or a broken
machine.

Only replicas of the stream's current history may add entries: see `restores`.
"""

from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.epoch_records import LostCommitError, digest_input
from holdfast.resources.control_store.records import Epoch, LedgerEntry
from holdfast.resources.control_store.schema import epochs, ledger, ledger_copies
from holdfast.resources.control_store.tables.epochs.log import is_within_gap
from holdfast.resources.control_store.tables.playbooks.restores import current_history
from holdfast.resources.control_store.tables.retention import first_kept_epoch
from holdfast.resources.control_store.tables.streams import lock_for_addition

_OF_STREAM = ledger.c.stream == sa.bindparam("of_stream")
_GET = sa.select(ledger).where(_OF_STREAM, ledger.c.epoch == sa.bindparam("number"))
_now = sa.select(
    current_history(sa.bindparam("of_stream", type_=sa.Text)).label("current")
).subquery()
_EXCUSED = is_within_gap(
    sa.bindparam("of_stream", type_=sa.Text), sa.bindparam("number", type_=sa.BigInteger)
).label("excused")
_ENTERED = sa.select(_now.c.current, _EXCUSED, *ledger.c).select_from(
    _now.outerjoin(ledger, sa.and_(_OF_STREAM, ledger.c.epoch == sa.bindparam("number")))
)
_DECIDED = sa.select(epochs).where(
    epochs.c.stream == sa.bindparam("of_stream"), epochs.c.epoch == sa.bindparam("number")
)
_LAST = sa.select(ledger).where(_OF_STREAM).order_by(ledger.c.epoch.desc()).limit(1)
_LAST_WITH_ROWS = _LAST.where(ledger.c.rows > 0, ledger.c.epoch < sa.bindparam("before"))
_BETWEEN = (
    sa.select(ledger)
    .where(_OF_STREAM, ledger.c.epoch.between(sa.bindparam("first"), sa.bindparam("last")))
    .order_by(ledger.c.epoch)
)
_ROWS_BETWEEN = sa.select(sa.func.coalesce(sa.func.sum(ledger.c.rows), 0).label("rows")).where(
    _OF_STREAM, ledger.c.epoch.between(sa.bindparam("first"), sa.bindparam("last"))
)
_AFTER = (
    sa.select(ledger)
    .where(
        _OF_STREAM,
        ledger.c.epoch > sa.bindparam("number"),
        ledger.c.replica != sa.bindparam("of_replica"),
    )
    .order_by(ledger.c.epoch)
    .limit(1)
)
_HAS_COPY = sa.select(
    sa.exists()
    .where(
        ledger_copies.c.stream == sa.bindparam("of_stream"),
        ledger_copies.c.epoch >= sa.bindparam("first"),
        ledger_copies.c.replica == sa.bindparam("of_replica"),
    )
    .label("has_copy")
)
_UP_TO = _LAST.where(ledger.c.committed_at <= sa.bindparam("moment"))
_LAST_EPOCH = sa.func.coalesce(
    sa.select(sa.func.max(ledger.c.epoch)).where(_OF_STREAM).scalar_subquery(), -1
)
_WITHOUT_ENTRY = (
    sa.select(epochs.c.epoch)
    .outerjoin(
        ledger, sa.and_(ledger.c.stream == epochs.c.stream, ledger.c.epoch == epochs.c.epoch)
    )
    .where(epochs.c.stream == sa.bindparam("of_stream"), ledger.c.epoch.is_(None))
    .order_by(epochs.c.epoch)
)
_HOLES = _WITHOUT_ENTRY.where(epochs.c.epoch < _LAST_EPOCH)
_UNCOMMITTED = _WITHOUT_ENTRY.where(epochs.c.epoch > _LAST_EPOCH)
_odd = ledger_copies.alias("odd")
_DISAGREEMENTS = (
    sa.select(
        ledger.c.epoch,
        ledger.c.digest.label("committed"),
        ledger_copies.c.replica,
        ledger_copies.c.digest,
    )
    .join(
        ledger_copies,
        sa.and_(ledger_copies.c.stream == ledger.c.stream, ledger_copies.c.epoch == ledger.c.epoch),
    )
    .where(
        _OF_STREAM,
        sa.exists().where(
            _odd.c.stream == ledger.c.stream,
            _odd.c.epoch == ledger.c.epoch,
            _odd.c.digest != ledger.c.digest,
        ),
    )
    .order_by(ledger.c.epoch, ledger_copies.c.replica)
)

_BEFORE = (
    sa.select(sa.func.coalesce(sa.func.max(ledger.c.epoch), 0))
    .where(_OF_STREAM, ledger.c.committed_at < sa.bindparam("since", type_=sa.Double))
    .scalar_subquery()
)
_SINCE = sa.select(ledger).where(_OF_STREAM, ledger.c.epoch >= _BEFORE).order_by(ledger.c.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """An epoch whose output differed between replicas."""

    epoch: int
    committed: str
    digests: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAudit:
    """The epochs in which epoch log and ledger, or two replicas, do not match."""

    holes: list[int]
    uncommitted: list[int]
    disagreements: list[Disagreement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The result of a commit: the entry that counts for the epoch, and whether this replica's output agrees."""

    entry: LedgerEntry
    first: bool
    agrees: bool


class MissingEntryError(LostCommitError):
    """The ledger has lost the entry of the epoch before one that is to be entered."""


class Ledger:
    """The ledger of all streams."""

    def __init__(self, database: Database) -> None:
        self._database = database
        named: dict[str, sa.BindParameter[Any]] = {
            name: sa.bindparam(name, type_=ledger.c[name].type)
            for name in ("stream", "epoch", "replica", "rows", "digest", "token")
        }
        of_history = sa.bindparam("of_history", type_=sa.BigInteger)
        before = ledger.alias("before")
        follows = sa.exists().where(
            before.c.stream == named["stream"], before.c.epoch == named["epoch"] - 1
        )
        entry = sa.select(*named.values(), store_now()).where(
            of_history == current_history(named["stream"]),
            sa.or_(named["epoch"] <= first_kept_epoch(named["stream"]), follows),
        )
        self._enter = (
            database.insert(ledger)
            .from_select([*named, "committed_at"], entry)
            .on_conflict_do_nothing()
        )
        copy = database.insert(ledger_copies).values(**named, committed_at=store_now())
        self._copy = copy.on_conflict_do_update(
            index_elements=list(ledger_copies.primary_key),
            set_={
                "rows": copy.excluded.rows,
                "digest": copy.excluded.digest,
                "token": copy.excluded.token,
                "committed_at": store_now(),
            },
            where=ledger_copies.c.digest == sa.bindparam("first_digest"),
        )

    def commit(self, entry: LedgerEntry, *, history: int = 0, read: str | None = None) -> Committed:
        """Enter an epoch's output; the first entry stands, and the result says whether this one agrees.

        `history` is that of the replica; `PermanentError` if it has ended. `read` is the digest of the input that it
        has read; `LostCommitError` if the epoch log has not this input by now, `MissingEntryError` if the epoch before
        is not entered. A replica that computes an epoch before a gap again, with less input, need not agree.
        """
        values = asdict(entry)
        del values["committed_at"]
        key = {"of_stream": entry.stream, "number": entry.epoch}
        with self._database.write() as connection:
            lock_for_addition(connection, entry.stream)
            if read is not None:
                _require_decided(connection, entry, read)
            connection.execute(self._enter, {**values, "of_history": history})
            entered = dict(connection.execute(_ENTERED, key).mappings().one())
            _require_current(entered.pop("current"), history, entry)
            excused = bool(entered.pop("excused"))
            _require_entered(entered["epoch"], entry)
            first = LedgerEntry(**entered)
            agrees = first.digest == entry.digest
            if agrees or not excused:
                connection.execute(self._copy, {**values, "first_digest": first.digest})
        return Committed(
            entry=first,
            first=first.replica == entry.replica,
            agrees=agrees or excused,
        )

    def get(self, stream: str, epoch: int) -> LedgerEntry | None:
        """The entry that counts for an epoch."""
        return self._database.find(LedgerEntry, _GET, {"of_stream": stream, "number": epoch})

    def last(self, stream: str) -> LedgerEntry | None:
        """The entry of the newest committed epoch."""
        return self._database.find(LedgerEntry, _LAST, {"of_stream": stream})

    def last_with_rows(self, stream: str, *, before: int) -> LedgerEntry | None:
        """The entry of the newest committed epoch before one that has rows."""
        values = {"of_stream": stream, "before": before}
        return self._database.find(LedgerEntry, _LAST_WITH_ROWS, values)

    def last_up_to(self, stream: str, moment: float) -> LedgerEntry | None:
        """The entry of the newest epoch that was committed up to a time of the store's clock."""
        return self._database.find(LedgerEntry, _UP_TO, {"of_stream": stream, "moment": moment})

    def first_after(self, stream: str, epoch: int, *, not_by: str) -> LedgerEntry | None:
        """The first entry after an epoch that another replica has committed."""
        values = {"of_stream": stream, "number": epoch, "of_replica": not_by}
        return self._database.find(LedgerEntry, _AFTER, values)

    def between(self, stream: str, first: int, last: int) -> list[LedgerEntry]:
        """The entries from first to last, both included."""
        values = {"of_stream": stream, "first": first, "last": last}
        return self._database.find_all(LedgerEntry, _BETWEEN, values)

    def rows_between(self, stream: str, first: int, last: int) -> int:
        """How many rows the entries from first to last have, both included."""
        values = {"of_stream": stream, "first": first, "last": last}
        return int(self._database.fetch(_ROWS_BETWEEN, values)[0]["rows"])

    def since(self, stream: str, *, at: float) -> list[LedgerEntry]:
        """The entries that were committed from a time on, and the one before them."""
        values = {"of_stream": stream, "since": at}
        return self._database.find_all(LedgerEntry, _SINCE, values)

    def has_copy(self, stream: str, replica: str, *, first: int) -> bool:
        """Whether a replica has computed a committed epoch from the first on."""
        values = {"of_stream": stream, "of_replica": replica, "first": first}
        return bool(self._database.fetch(_HAS_COPY, values)[0]["has_copy"])

    def audit(self, stream: str) -> LedgerAudit:
        """Compare the ledger with the epoch log, and the replicas with each other."""
        of = {"of_stream": stream}
        disagreements: dict[int, Disagreement] = {}
        for row in self._database.fetch(_DISAGREEMENTS, of):
            epoch, committed = row["epoch"], row["committed"]
            disagreement = disagreements.setdefault(
                epoch, Disagreement(epoch=epoch, committed=committed, digests={})
            )
            disagreement.digests[row["replica"]] = row["digest"]
        return LedgerAudit(
            holes=[row["epoch"] for row in self._database.fetch(_HOLES, of)],
            uncommitted=[row["epoch"] for row in self._database.fetch(_UNCOMMITTED, of)],
            disagreements=list(disagreements.values()),
        )


def _require_decided(connection: sa.Connection, entry: LedgerEntry, read: str) -> None:
    key = {"of_stream": entry.stream, "number": entry.epoch}
    decided = connection.execute(_DECIDED, key).mappings().one_or_none()
    if decided is None or digest_input(Epoch(**decided)) != read:
        has = "does not have it any more" if decided is None else "has other input now"
        raise LostCommitError(
            f"epoch {entry.epoch}: {entry.replica} has read it, and the epoch log {has}",
            hint="restore the stream to an epoch before it",
        )


def _require_current(current: int, history: int, entry: LedgerEntry) -> None:
    if current != history:
        raise PermanentError(
            f"{entry.replica} cannot commit: {entry.stream} was restored, and its history is now "
            f"{current}, not {history}",
            hint="do nothing: a replica of the current history continues",
        )


def _require_entered(entered: int | None, entry: LedgerEntry) -> None:
    if entered is None:
        raise MissingEntryError(
            f"epoch {entry.epoch} cannot be entered: epoch {entry.epoch - 1} is not in the ledger any more",
            hint="restore the stream to an epoch before it",
        )


_before = epochs.alias("before")
_AFTER_HOLES = (
    sa.select(epochs.c.epoch)
    .outerjoin(
        _before,
        sa.and_(_before.c.stream == epochs.c.stream, _before.c.epoch == epochs.c.epoch - 1),
    )
    .where(
        epochs.c.stream == sa.bindparam("of_stream"),
        epochs.c.epoch > first_kept_epoch(epochs.c.stream),
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
    """Comparisons of epoch log and ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find_undecided(self, stream: str) -> list[int]:
        """The epochs that are missing in the epoch log before its last."""
        missing: list[int] = []
        for row in self._database.fetch(_AFTER_HOLES, {"of_stream": stream}):
            values = {"of_stream": stream, "number": row["epoch"]}
            last = int(self._database.fetch(_LAST_BEFORE, values)[0]["epoch"])
            missing += range(last + 1, row["epoch"])
        return missing

    def find_unknown(self, stream: str) -> list[int]:
        """The epochs in the ledger that are not in the epoch log."""
        rows = self._database.fetch(_UNKNOWN, {"of_stream": stream})
        return [int(row["epoch"]) for row in rows]

    def withdraw(self, stream: str, epoch: int, replica: str) -> None:
        """Remove an entry that a repair added for a replica, and the copies that were compared with it."""
        values = {"of_stream": stream, "number": epoch, "of_replica": replica}
        with self._database.write() as connection:
            connection.execute(_WITHDRAW_COPIES, values)
            connection.execute(_WITHDRAW, values)
