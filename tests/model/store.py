"""The control store of the model: the rules of leases, slots, epoch log, ledger and histories as pure functions.

`tests/contracts/control_store/test_model` holds them to the real tables, call for call. Times count from now, which is 0: a clock that
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

    def __init__(self, epoch: int, reason: str) -> None:
        super().__init__(reason)
        self.epoch = epoch


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
    epoch: int | None = None
    """The last epoch that it has reported, and when it finished that one, by its own clock."""
    progressed_at: float | None = None


class Restore(NamedTuple):
    history: int
    epoch: int
    was_running: bool
    closed: bool = False
    begun: bool = False
    finished: bool = False

    @property
    def half_done(self) -> bool:
        return self.closed and not self.finished


class Migration(NamedTuple):
    rollout: int
    protocol: str
    overdue: bool = False


class Store(NamedTuple):
    wanted: bool = True
    lease: Lease | None = None
    rows: tuple[Row, ...] = ()
    log: tuple[Range, ...] = ()
    ledger: tuple[Output | None, ...] = ()
    restore: Restore | None = None
    history: int = 0
    tier: str = "active_standby"
    rollout: int = 0
    migration: Migration | None = None
    failures: int = 0
    """How many primaries have failed in a row, without a new entry in the ledger between one and the next."""
    entered: bool = False
    """Whether the ledger has got a new entry since the last of them."""

    def row(self, replica: str) -> Row | None:
        return next((row for row in self.rows if row.id == replica), None)

    def live(self, slot: str) -> Row | None:
        return next((row for row in self.rows if row.slot == slot), None)

    def entry(self, epoch: int) -> Output | None:
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
    if row.progressed_at is not None:
        row = row._replace(progressed_at=max(row.progressed_at - seconds, oldest))
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


def fence(store: Store, primary: str, token: int) -> tuple[Store, bool]:
    """The slot of a primary, and the lease if it has it under this token; whether the lease was taken."""
    old = store.lease
    if old is None or (old.holder, old.token) != (primary, token):
        return end(store, primary), False
    taken = old._replace(holder=None, token=token + 1, expires_at=0)
    return end(store._replace(lease=taken), primary), True


def fence_seen(
    store: Store, observed: Row, lease: Lease | None, *, stuck: bool
) -> tuple[Store, bool]:
    """Lease and slot of a silent or stuck primary, unless it has sent a sign of life since it was observed."""
    row, held = store.row(observed.id), store.lease
    if lease is not None and lease.holder == observed.id:
        if held is None or held.token != lease.token:
            return store, False
        if not stuck and held.renewed_at != lease.renewed_at:
            return store, False
        held = held._replace(holder=None, token=held.token + 1, expires_at=0)
    sign = None if row is None else row.epoch if stuck else row.heartbeat_at
    if row is None or sign != (observed.epoch if stuck else observed.heartbeat_at):
        return store, False
    return end(store._replace(lease=held), observed.id), True


def take_over(
    store: Store, secondary: str, primary: str | None, observed: Lease | None, ttl: float
) -> tuple[Store, Lease | None]:
    """Lease and slot in one transaction, or nothing."""
    lease, row, old = store.lease, store.row(secondary), store.live(PRIMARY)
    as_seen = (
        (lease is None) if observed is None else (lease is not None and lease[:3] == observed[:3])
    )
    replaced = old is None or old.id == primary
    if not store.wanted or not as_seen or not replaced or row is None or row.slot != SECONDARY:
        return store, None
    taken = Lease(secondary, 1 if lease is None else lease.token + 1, 0, ttl)
    promoted = row._replace(slot=PRIMARY, desired=SWITCHES_OF_PRIMARY)
    if old is not None:
        store = end(store, old.id)
    return _put(store._replace(lease=taken), row, promoted), taken


SWITCHES_OF_PRIMARY = ("deploy", "process", "receive", "send")


def register(
    store: Store, replica: str, slot: str, desired: tuple[str, ...], rollout: int = 0
) -> tuple[Store, bool]:
    if store.live(slot) is not None:
        return store, False
    row = Row(replica, slot, desired, (), 0, None, rollout)
    return store._replace(rows=(*store.rows, row)), True


def heartbeat(
    store: Store,
    replica: str,
    observed: tuple[str, ...],
    epoch: int | None = None,
    quiet: float | None = None,
) -> tuple[Store, Row | None]:
    """Report what is on, and how long ago it has finished its last epoch; `None` if the replica has ended."""
    row = store.row(replica)
    if row is None:
        return store, None
    beaten = row._replace(observed=observed, heartbeat_at=0, registered_at=0, epoch=epoch)
    beaten = beaten._replace(progressed_at=None if quiet is None else -quiet)
    return _put(store, row, beaten), beaten


def desire(store: Store, replica: str, switches: tuple[str, ...], slot: str) -> tuple[Store, bool]:
    row = store.row(replica)
    if row is None or row.slot != slot:
        return store, False
    return _put(store, row, row._replace(desired=switches)), True


def end(store: Store, replica: str, slot: str | None = None) -> Store:
    row = store.row(replica)
    if row is None or (slot is not None and row.slot != slot):
        return store
    ended = store._replace(rows=tuple(other for other in store.rows if other is not row))
    return _forget_failures(ended) if row.slot == PRIMARY else ended


def fail(store: Store, replica: str) -> Store:
    """The end of a replica that has met an error that lasts; one more failure of a primary in a row."""
    row, ended = store.row(replica), end(store, replica)
    if row is None or row.slot != PRIMARY:
        return ended
    return ended._replace(failures=1 if store.entered else store.failures + 1)


def _forget_failures(store: Store) -> Store:
    return store._replace(failures=0, entered=False)


def propose(
    store: Store, epoch: int, slice_: Range, rules: Rules, *, after: Range | None = None
) -> tuple[Store, Range]:
    """First writer wins, no hole is left, and it continues from the decision `after`."""
    decided = store.decided(epoch)
    if decided is None:
        if epoch > len(store.log):
            raise InputDiffersError(epoch - 1, f"epoch {epoch} would leave a hole in the epoch log")
        if after is not None and store.decided(epoch - 1) != after:
            raise InputDiffersError(epoch - 1, f"epoch {epoch - 1} was decided again")
        return store._replace(log=(*store.log, slice_)), slice_
    if rules.first_proposal_wins:
        return store, decided
    log = (*store.log[:epoch], slice_, *store.log[epoch + 1 :])
    return store._replace(log=log), slice_


def enter(
    store: Store, epoch: int, output: Output, history: int, rules: Rules
) -> tuple[Store, bool]:
    """The first entry stands; whether this one agrees with it."""
    if rules.entry_compares_input and store.decided(epoch) != output[-1]:
        raise InputDiffersError(epoch, f"epoch {epoch} is not decided, or with other input")
    if history != store.history:
        raise RefusedError(f"history {history} has ended")
    first = store.entry(epoch)
    if first is not None:
        return store, first == output
    if epoch > len(store.ledger) and rules.ledger_in_order:
        raise MissingEntryError(epoch, f"epoch {epoch - 1} is not entered")
    missing = (None,) * (epoch - len(store.ledger))
    grown = (*store.ledger, *missing, output)
    return store._replace(ledger=grown, entered=store.failures > 0), True


def request_restore(store: Store, epoch: int) -> Store:
    old = store.restore
    if old is not None and old.half_done:
        if old.epoch != epoch:
            raise RefusedError(f"the restore to epoch {old.epoch} is half done")
        return store
    if old is not None and not old.closed:
        was_running = old.was_running or store.wanted
        return store._replace(restore=old._replace(epoch=epoch, was_running=was_running))
    number = 1 if old is None else old.history + 1
    return store._replace(restore=Restore(number, epoch, was_running=store.wanted))


def stop_for_restore(store: Store) -> Store:
    if store.restore is None or store.restore.finished:
        return store
    return store._replace(wanted=False)


def close_history(store: Store) -> tuple[Store, bool]:
    """End the older history: nothing of it can enter the ledger, or renew the lease; false if it may not end yet."""
    restore, lease = store.restore, store.lease
    if store.rows or store.wanted or restore is None:
        return store, False
    if restore.closed:
        return store, True
    if lease is not None:
        lease = lease._replace(holder=None, token=lease.token + 1, expires_at=0)
    closed = restore._replace(closed=True)
    return store._replace(lease=lease, restore=closed, history=restore.history), True


def begin_history(store: Store) -> tuple[Store, int]:
    """Set the later entries of a closed history aside; how many these were."""
    restore = store.restore
    if restore is None or restore.begun or not restore.closed:
        return store, 0
    kept = store.ledger[: restore.epoch + 1]
    begun = restore._replace(begun=True)
    return store._replace(ledger=kept, restore=begun), len(store.ledger) - len(kept)


def finish_restore(store: Store) -> Store:
    restore = store.restore
    if restore is None or not restore.begun or restore.finished:
        return store
    wanted = store.wanted or restore.was_running
    restarted = store._replace(restore=restore._replace(finished=True), wanted=wanted)
    return _forget_failures(restarted) if restore.was_running else restarted


def _put(store: Store, old: Row, new: Row) -> Store:
    return store._replace(rows=tuple(new if row is old else row for row in store.rows))
