"""A table and a ledger in memory, shared by replicas that fail and die at chosen points."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.streaming.sinks.staging import Staged, StagedFile


class Fate(StrEnum):
    """What becomes of one call to the outside world."""

    WELL = "well"
    REFUSED = "refused"
    ERROR_AFTERWARDS = "done, and answered with an error"
    DIE_BEFORE = "the process dies before it"
    DIE_AFTER = "the process dies after it"


class Crash(BaseException):
    """The process of a replica dies; no handler may swallow it."""


def no_faults() -> Fate:
    return Fate.WELL


def fates(given: list[Fate]) -> Callable[[], Fate]:
    """These, one a call, and then no more faults."""
    left: Iterator[Fate] = iter(given)
    return lambda: next(left, Fate.WELL)


@dataclass(frozen=True)
class SimulatedFrame:
    """The output of an epoch; `salt` makes one that differs from the others'."""

    epoch: int
    rows: int = 1
    salt: str = ""
    schema: None = None

    @property
    def digest(self) -> str:
        return f"d{self.epoch}{self.salt}"


def a_frame(epoch: int) -> SimulatedFrame:
    """Every third epoch is empty."""
    return SimulatedFrame(epoch, rows=epoch % 3)


@dataclass
class SimulatedTable:
    """Commits in their order, and all files on the table's storage."""

    commits: list[tuple[int, str, str]] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)
    names: Iterator[int] = field(default_factory=count)

    @property
    def newest(self) -> int:
        return self.commits[-1][0] if self.commits else -1

    @property
    def epochs(self) -> list[int]:
        return [epoch for epoch, _, _ in self.commits]


@dataclass
class SimulatedLedger:
    """The ledger of one stream: the first entry stands, the others are copies."""

    entries: dict[int, LedgerEntry] = field(default_factory=dict)
    copies: dict[tuple[int, str], str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def differing(self) -> set[int]:
        return {epoch for (epoch, _), d in self.copies.items() if d != self.entries[epoch].digest}


@dataclass
class SimulatedEntries:
    """What `LedgerWriter` is to a replica."""

    ledger: SimulatedLedger
    replica: str
    fate: Callable[[], Fate] = no_faults
    token: int = 1

    def require_current(self) -> None:
        """It always is."""

    def entry(self, epoch: int) -> LedgerEntry | None:
        return self.ledger.entries.get(epoch)

    def require_decided(self, epoch: int, read: str | None) -> None:
        """It always is."""

    def write(self, epoch: int, *, rows: int, digest: str, read: str | None = None) -> None:
        with injected_fate(self.fate()), self.ledger.lock:
            entry = LedgerEntry(
                stream="s", epoch=epoch, replica=self.replica, token=1, rows=rows, digest=digest
            )
            assert epoch == 0 or epoch - 1 in self.ledger.entries, f"a hole before {epoch}"
            self.ledger.entries.setdefault(epoch, entry)
            self.ledger.copies[epoch, self.replica] = digest


class injected_fate:  # noqa: N801 - reads as what it does
    """Perform an act as its fate wants it."""

    def __init__(self, fate: Fate) -> None:
        if fate is Fate.DIE_BEFORE:
            raise Crash
        if fate is Fate.REFUSED:
            raise TransientError("refused")
        self._fate = fate

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._fate is Fate.DIE_AFTER:
            raise Crash
        if kind is None and self._fate is Fate.ERROR_AFTERWARDS:
            raise TransientError("answered with an error")


@dataclass
class SimulatedSink:
    """A sink with the rules of the Delta sink; it holds the `Sender` to the order of epochs."""

    table: SimulatedTable
    entries: SimulatedEntries
    fate: Callable[[], Fate] = no_faults
    newest_seen: int = -1
    tried_through: int = -1
    in_use: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def alone(self) -> Iterator[None]:
        assert self.in_use.acquire(blocking=False), "two threads of one replica meet in its sink"
        try:
            time.sleep(0)  # let the others have their chance
            yield
        finally:
            self.in_use.release()

    def prepare(self, schema: object) -> None:
        with self.alone():
            pass

    def is_done(self, epoch: int, *, read: str | None = None) -> bool:
        with self.alone():
            self.newest_seen = self.table.newest
        entry = self.entries.entry(epoch)
        assert entry is not None or self.newest_seen <= epoch, (
            f"the table is ahead of the ledger: {epoch}"
        )
        return self.newest_seen >= epoch or (entry is not None and entry.rows == 0)

    def stage(self, df: SimulatedFrame, epoch: int, *, write: bool) -> Staged:
        assert df.epoch == epoch
        folder = f"{epoch}-{self.entries.replica}-{next(self.table.names)}"
        files = (StagedFile(path=folder, size_bytes=1, rows=df.rows),) if df.rows and write else ()
        self.table.folders.update(file.path for file in files)
        return Staged(files=files, rows=df.rows, digest=df.digest, folder=folder)

    def keep(self, staged: Staged, epoch: int) -> Staged:
        return staged

    def commit(self, staged: Staged, epoch: int) -> None:
        with self.alone():
            if staged.files:
                self._commit(staged, epoch)

    def _commit(self, staged: Staged, epoch: int) -> None:
        if self.newest_seen < epoch:
            self.tried_through = max(self.tried_through, epoch)
            with injected_fate(self.fate()), self.table.lock:
                if self.table.newest <= self.newest_seen:
                    assert epoch == 0 or self.entries.entry(epoch - 1), f"{epoch} goes too early"
                    self.table.commits.append((epoch, self.entries.replica, staged.folder))
                    self.newest_seen = epoch
                    return
                self.newest_seen = self.table.newest
        assert self.newest_seen >= epoch, "only epochs are committed to this table"
        self.discard(staged, epoch)

    def discard(self, staged: Staged, epoch: int) -> None:
        ours = (epoch, self.entries.replica) in {(e, r) for e, r, _ in self.table.commits}
        in_table = epoch in self.table.epochs
        if staged.files and (epoch > self.tried_through or (in_table and not ours)):
            self.table.folders.discard(staged.folder)
