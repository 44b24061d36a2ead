"""Writing rows and digest of an epoch into the ledger, and opening an incident if two replicas disagree.

A control store that has lost its last commits, as a restored backup or a standby that was behind, may have lost entries,
too. A replica enters those that it remembers again, as long as their input is what is decided. Anything else stops it.

A replica that differs once will differ again: while its incident is open, no other is opened. The incident
has the first epoch that differed; the ledger's audit has all of them.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.epoch_records import LostCommitError, digest_input
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import JsonObject, LedgerEntry
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.epochs.ledger import Committed, MissingEntryError
from holdfast.resources.retry import retry_transient
from holdfast.streaming.lease import WriteToken

CLOSED_BY_RESTORE = frozenset({IncidentKind.INPUT_DIFFERS, IncidentKind.OUTPUT_LOST})
REMEMBERED = 300

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerWriter:
    """The ledger as one replica of a stream sees it."""

    store: ControlStore
    stream: str
    replica: str
    lease: WriteToken
    history: int = 0
    _entered: deque[tuple[LedgerEntry, str | None]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED), init=False, repr=False, compare=False
    )

    @property
    def token(self) -> int:
        """The token of the lease that this replica writes under."""
        return self.lease.token

    def require_current(self) -> None:
        """Raise if a restore has ended this replica's history, or another replica has a newer lease."""
        current = self.store.restores.current_history(self.stream)
        if current != self.history:
            raise PermanentError(
                f"{self.replica} cannot write: {self.stream} was restored, and its history is now "
                f"{current}, not {self.history}",
                hint="do nothing: a replica of the current history continues",
            )
        lease = self.store.leases.get(self.stream)
        if lease is not None and lease.token > self.token:
            raise TransientError(
                f"{self.replica} cannot write: its lease has token {self.token}, the newest {lease.token}",
                hint="wait: it reads the newest lease, or leaves if it has lost its place",
            )

    def entry(self, epoch: int) -> LedgerEntry | None:
        """What was committed for an epoch, by any replica."""
        return retry_transient(
            lambda: self.store.ledger.get(self.stream, epoch),
            what=f"looking epoch {epoch} up in the ledger",
        )

    def write(self, epoch: int, *, rows: int, digest: str, read: str | None = None) -> None:
        """Record what this replica computed, and from which input; waits while the control store is unavailable."""
        committed = self.enter(
            LedgerEntry(
                stream=self.stream,
                epoch=epoch,
                replica=self.replica,
                token=self.lease.token,
                rows=rows,
                digest=digest,
            ),
            read=read,
        )
        if committed.agrees:
            return
        second = {"replica": self.replica, "rows": rows, "digest": digest}
        self._open_incident(epoch, committed.entry, second)

    def enter(self, entry: LedgerEntry, *, read: str | None = None) -> Committed:
        """Enter an epoch, of this replica or of the one that committed it to the table."""
        try:
            committed = self._commit_after_lost(entry, read)
        except LostCommitError as error:
            self.refuse(entry.epoch, reason=str(error))
        self._entered.append((committed.entry, read))
        return committed

    def _commit_after_lost(self, entry: LedgerEntry, read: str | None) -> Committed:
        """Enter an epoch, after the entries before it that the ledger has lost."""
        try:
            return self._commit(entry, read)
        except MissingEntryError:
            last = self.store.ledger.last(self.stream)
            lost = range(0 if last is None else last.epoch + 1, entry.epoch)
            for entered, from_input in [pair for pair in self._entered if pair[0].epoch in lost]:
                log.warning("epoch %s is entered again: the ledger has lost it", entered.epoch)
                self._commit(entered, from_input)
            return self._commit(entry, read)

    def _commit(self, entry: LedgerEntry, read: str | None) -> Committed:
        return retry_transient(
            lambda: self.store.ledger.commit(entry, history=self.history, read=read),
            what=f"writing epoch {entry.epoch} into the ledger",
        )

    def require_decided(self, epoch: int, read: str | None) -> None:
        """Raise if this replica has computed an epoch from other input than the epoch log has now."""
        if read is not None and self.find_decided_input(epoch) != read:
            reason = f"epoch {epoch}: {self.replica} has read it, and the epoch log has other input now, or none"
            self.refuse(epoch, reason=reason)

    def find_decided_input(self, epoch: int) -> str | None:
        """The digest of the input that was decided for an epoch; `None` if the epoch log does not have it."""
        decided = retry_transient(
            lambda: self.store.epochs.get(self.stream, epoch),
            what=f"looking epoch {epoch} up in the epoch log",
        )
        return None if decided is None else digest_input(decided)

    def refuse(self, epoch: int, *, reason: str) -> NoReturn:
        """Open an incident for an epoch that the control store does not know as it was computed, and raise."""
        refuse_epoch(
            self.store,
            epoch,
            stream=self.stream,
            replica=self.replica,
            history=self.history,
            reason=reason,
        )

    def last_epoch(self) -> int:
        """The newest epoch of the ledger; -1 if there is none."""
        return self._number_of(lambda: self.store.ledger.last(self.stream))

    def last_with_rows(self, *, before: int) -> int:
        """The newest epoch of the ledger before one that has rows; -1 if there is none."""
        return self._number_of(lambda: self.store.ledger.last_with_rows(self.stream, before=before))

    def _number_of(self, find: Callable[[], LedgerEntry | None]) -> int:
        what = f"looking the last epoch of {self.stream} up in the ledger"
        entry = retry_transient(find, what=what)
        return -1 if entry is None else entry.epoch

    def refuse_table(self, table: str, *, newest: int, last: int) -> NoReturn:
        """Open an incident for a table that lacks output that the ledger has, and raise."""
        refuse_epoch(
            self.store,
            newest + 1,
            stream=self.stream,
            replica=self.replica,
            history=self.history,
            kind=IncidentKind.OUTPUT_LOST,
            reason=f"the table {table} ends with epoch {newest}, and the ledger has output up to epoch {last}",
            hint=f"put the newer table back, or restore {self.stream} to epoch {newest} or an earlier one",
        )

    def _open_incident(self, epoch: int, first: LedgerEntry, second: JsonObject) -> None:
        reason = (
            f"epoch {epoch}: {self.replica} computed {second['digest']}, "
            f"{first.replica} had committed {first.digest}"
        )
        log.error("%s", reason)
        retry_transient(
            lambda: self.store.incidents.open_next(
                stream=self.stream,
                key=f"{self.stream}/{self.replica}/digest",
                kind=IncidentKind.DIGEST_DIFFERS,
                replica=self.replica,
                detail={
                    "reason": reason,
                    "epoch": epoch,
                    "first": {"replica": first.replica, "rows": first.rows, "digest": first.digest},
                    "second": second,
                    "hint": "make the job deterministic; if it is, check the machine of the replica",
                },
                since=self.store.now(),
            ),
            what=f"opening an incident for epoch {epoch}",
        )


def refuse_epoch(
    store: ControlStore,
    epoch: int,
    *,
    stream: str,
    replica: str,
    history: int,
    reason: str,
    kind: IncidentKind = IncidentKind.INPUT_DIFFERS,
    hint: str | None = None,
) -> NoReturn:
    """Open an incident that a restore to before this epoch closes, and raise; in an ended history, only raise."""
    log.error("%s", reason)
    if _has_ended(store, stream, history):
        raise PermanentError(reason, hint="do nothing: a replica of the current history continues")
    hint = hint or (
        "the control store has lost its last commits, as a restored backup or a standby that was behind: "
        f"restore {stream} to an epoch before {epoch}; if it is another one than before, correct control_store.url"
    )
    retry_transient(
        lambda: store.incidents.open_next(
            stream=stream,
            key=f"{stream}/{epoch}/{kind}",
            kind=kind,
            replica=replica,
            detail={"reason": reason, "epoch": epoch, "hint": hint},
            since=store.now(),
        ),
        what=f"opening an incident for epoch {epoch}",
    )
    raise PermanentError(reason, hint=hint)


def _has_ended(store: ControlStore, stream: str, history: int) -> bool:
    what = f"looking up the history of {stream}"
    return retry_transient(lambda: store.restores.current_history(stream), what=what) != history
