"""The control store of the model: the rules of leases, slots, epoch log, ledger and histories as pure functions.

`test_conformance` holds them to the real tables, call for call. Times count from now, which is 0: a clock that
moves shifts all of them. A live replica has a row; an ended one has none.
"""

from typing import NamedTuple, TypeAlias

from tests.model.rules import Rules

Range: TypeAlias = tuple[int, int]
"""The input of an epoch: its first row, and the first row after it."""
Output: TypeAlias = tuple[Range, ...]
"""What an epoch computes depends on the input of all epochs through it: that is its digest."""

PRIMARY, SECONDARY = "primary", "secondary"


class RefusedError(Exception):
    """The rule refuses for good: a `PermanentError` of the real tables."""


class InputDiffersError(RefusedError):
    """An epoch was computed from other input than was decided, or than the table has, or its decision is lost."""


class MissingEntryError(InputDiffersError):
    """The entry of the epoch before is lost."""


class Lease(NamedTuple):
    holder: str | None
    token: int
    renewed_at: float
    expires_at: float


class Row(NamedTuple):
    """A live replica; switches are the sorted names of those that are on."""

    id: str
    slot: str
    desired: tuple[str, ...]
    observed: tuple[str, ...]
    registered_at: float
    heartbeat_at: float | None
    rollout: int


class Restore(NamedTuple):
    history: int
    epoch: int
    was_running: bool
    begun: bool = False
    finished: bool = False


class Entry(NamedTuple):
    replica: str
    output: Output


class Migration(NamedTuple):
    rollout: int
    protocol: str
    overdue: bool = False


class Store(NamedTuple):
    wanted: bool = True
    lease: Lease | None = None
    rows: tuple[Row, ...] = ()
    log: tuple[Range, ...] = ()
    ledger: tuple[Entry | None, ...] = ()
    restore: Restore | None = None
    history: int = 0
    tier: str = "active_standby"
    rollout: int = 0
    migration: Migration | None = None

    def row(self, replica: str) -> Row | None:
        return next((row for row in self.rows if row.id == replica), None)

    def live(self, slot: str) -> Row | None:
        return next((row for row in self.rows if row.slot == slot), None)

    def entry(self, epoch: int) -> Entry | None:
        return self.ledger[epoch] if epoch < len(self.ledger) else None

    def decided(self, epoch: int) -> Range | None:
        return self.log[epoch] if epoch < len(self.log) else None


def elapse(store: Store, seconds: float, *, oldest: float) -> Store:
    """Let the store's clock move; what is older than `oldest` ages no more, so that states stay few."""
    lease = store.lease
    if lease is not None:
        lease = lease._replace(
            renewed_at=max(lease.renewed_at - seconds, oldest),
            expires_at=max(lease.expires_at - seconds, oldest),
        )
    rows = tuple(age_row(row, seconds, oldest=oldest) for row in store.rows)
    return store._replace(lease=lease, rows=rows)


def age_row(row: Row, seconds: float, *, oldest: float) -> Row:
    """Only the age of the last heartbeat counts; before the first one, that of the registration."""
    if row.heartbeat_at is None:
        return row._replace(registered_at=max(row.registered_at - seconds, oldest))
    return row._replace(heartbeat_at=max(row.heartbeat_at - seconds, oldest))


def take(store: Store, holder: str, ttl: float) -> tuple[Store, Lease | None]:
    old = store.lease
    if old is None:
        lease = Lease(holder, 1, 0, ttl)
    else:
        if old.holder not in (None, holder) and old.expires_at > 0:
            return store, None
        kept = old.holder == holder and old.expires_at > 0
        lease = Lease(holder, old.token + (0 if kept else 1), 0, ttl)
    return store._replace(lease=lease), lease


def renew(store: Store, holder: str, token: int, ttl: float) -> tuple[Store, Lease | None]:
    old = store.lease
    if old is None or (old.holder, old.token) != (holder, token):
        return store, None
    lease = old._replace(renewed_at=0, expires_at=ttl)
    return store._replace(lease=lease), lease


def release(store: Store, holder: str, token: int) -> tuple[Store, bool]:
    old = store.lease
    if old is None or (old.holder, old.token) != (holder, token):
        return store, False
    return store._replace(lease=old._replace(holder=None, expires_at=0)), True


def fence(store: Store, token: int) -> tuple[Store, bool]:
    old = store.lease
    if old is None or old.token != token:
        return store, False
    return store._replace(lease=old._replace(holder=None, token=token + 1, expires_at=0)), True


def take_over(
    store: Store, secondary: str, primary: str | None, seen: Lease | None, ttl: float
) -> tuple[Store, Lease | None]:
    """Lease and slot in one transaction, or nothing."""
    lease, row, old = store.lease, store.row(secondary), store.live(PRIMARY)
    as_seen = (lease is None) if seen is None else (lease is not None and lease[:3] == seen[:3])
    replaced = old is None or old.id == primary
    if not store.wanted or not as_seen or not replaced or row is None or row.slot != SECONDARY:
        return store, None
    taken = Lease(secondary, 1 if lease is None else lease.token + 1, 0, ttl)
    promoted = row._replace(slot=PRIMARY, desired=SWITCHES_OF_PRIMARY)
    rows = tuple(promoted if one is row else one for one in store.rows if one is not old)
    return store._replace(lease=taken, rows=rows), taken


SWITCHES_OF_PRIMARY = ("deploy", "process", "receive", "send")


def register(
    store: Store, replica: str, slot: str, desired: tuple[str, ...], rollout: int = 0
) -> tuple[Store, bool]:
    if store.live(slot) is not None:
        return store, False
    row = Row(replica, slot, desired, (), 0, None, rollout)
    return store._replace(rows=(*store.rows, row)), True


def heartbeat(store: Store, replica: str, observed: tuple[str, ...]) -> tuple[Store, Row | None]:
    """Report what is on; `None` if the replica has ended."""
    row = store.row(replica)
    if row is None:
        return store, None
    beaten = row._replace(observed=observed, heartbeat_at=0, registered_at=0)
    return _put(store, row, beaten), beaten


def desire(store: Store, replica: str, switches: tuple[str, ...], slot: str) -> tuple[Store, bool]:
    row = store.row(replica)
    if row is None or row.slot != slot:
        return store, False
    return _put(store, row, row._replace(desired=switches)), True


def end(store: Store, replica: str, slot: str | None = None) -> Store:
    rows = tuple(
        row for row in store.rows if row.id != replica or (slot is not None and row.slot != slot)
    )
    return store._replace(rows=rows)


def propose(
    store: Store, epoch: int, slice_: Range, rules: Rules, *, after: Range | None = None
) -> tuple[Store, Range]:
    """First writer wins, no hole is left, and it continues from the decision `after`."""
    decided = store.decided(epoch)
    if decided is None:
        if epoch > len(store.log):
            raise InputDiffersError(f"epoch {epoch} would leave a hole in the epoch log")
        if after is not None and store.decided(epoch - 1) != after:
            raise InputDiffersError(f"epoch {epoch - 1} was decided again")
        return store._replace(log=(*store.log, slice_)), slice_
    if rules.first_proposal_wins:
        return store, decided
    log = (*store.log[:epoch], slice_, *store.log[epoch + 1 :])
    return store._replace(log=log), slice_


def enter(
    store: Store, epoch: int, replica: str, output: Output, history: int, rules: Rules
) -> tuple[Store, bool]:
    """The first entry stands; whether this one agrees with it."""
    if rules.entry_compares_input and store.decided(epoch) != output[-1]:
        raise InputDiffersError(f"epoch {epoch} is not decided, or with other input")
    if history != store.history:
        raise RefusedError(f"history {history} has ended")
    first = store.entry(epoch)
    if first is not None:
        return store, first.output == output
    if epoch > len(store.ledger) and rules.ledger_in_order:
        raise MissingEntryError(f"epoch {epoch - 1} is not entered")
    missing = (None,) * (epoch - len(store.ledger))
    return store._replace(ledger=(*store.ledger, *missing, Entry(replica, output))), True


def request_restore(store: Store, epoch: int) -> Store:
    old = store.restore
    if old is not None and old.begun and not old.finished:
        if old.epoch != epoch:
            raise RefusedError(f"the restore to epoch {old.epoch} is half done")
        return store
    if old is not None and not old.begun:
        was_running = old.was_running or store.wanted
        return store._replace(restore=old._replace(epoch=epoch, was_running=was_running))
    number = 1 if old is None else old.history + 1
    return store._replace(restore=Restore(number, epoch, was_running=store.wanted))


def stop_for_restore(store: Store) -> Store:
    if store.restore is None or store.restore.finished:
        return store
    return store._replace(wanted=False)


def begin_restore(store: Store) -> tuple[Store, int | None]:
    """End the older history; how many entries no longer count, `None` if nothing was changed."""
    restore = store.restore
    if store.rows or store.wanted or restore is None:
        return store, None
    if restore.begun:
        return store, 0
    kept = store.ledger[: restore.epoch + 1]
    moved = len(store.ledger[restore.epoch + 1 :])
    lease = store.lease
    if lease is not None:
        lease = lease._replace(holder=None, token=lease.token + 1, expires_at=0)
    begun = restore._replace(begun=True)
    return (
        store._replace(ledger=kept, lease=lease, restore=begun, history=restore.history),
        moved,
    )


def finish_restore(store: Store) -> Store:
    restore = store.restore
    if restore is None or not restore.begun or restore.finished:
        return store
    wanted = store.wanted or restore.was_running
    return store._replace(restore=restore._replace(finished=True), wanted=wanted)


def _put(store: Store, old: Row, new: Row) -> Store:
    return store._replace(rows=tuple(new if row is old else row for row in store.rows))
