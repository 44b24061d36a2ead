"""Rows for tests of the control store, with defaults for what a test does not care about."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from holdfast.ft_policies.tiers import OFF, PRIMARY, Switches
from holdfast.resources.control_store.records import (
    DesiredState,
    EpochProposal,
    Incident,
    IncidentSubject,
    Lease,
    LedgerEntry,
    ReplicaRow,
    ReplicaState,
    Slot,
    SnapshotRow,
)
from holdfast.resources.control_store.schema import epochs, ledger, ledger_copies
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.playbooks.incidents import IncidentKey
from holdfast.resources.vault.records import build_snapshot_row
from holdfast.resources.vault.vault import SnapshotVault


def a_proposal(epoch: int, *, stream: str = "words", proposer: str = "r1") -> EpochProposal:
    return EpochProposal(
        stream=stream,
        epoch=epoch,
        start={"offset": epoch * 10},
        end={"offset": epoch * 10 + 10, "by": proposer},
        input={"paths": [f"{epoch}.parquet", "ü"]},
        rows=10,
        token=1,
        proposer=proposer,
    )


def an_entry(
    epoch: int, *, stream: str = "words", replica: str = "r1", digest: str = "d"
) -> LedgerEntry:
    return LedgerEntry(stream=stream, epoch=epoch, replica=replica, token=1, rows=10, digest=digest)


def a_snapshot(snapshot: str, epoch: int, **changes: Any) -> SnapshotRow:
    facts: dict[str, Any] = {
        "stream": "words",
        "id": snapshot,
        "epoch": epoch,
        "token": 1,
        "replica": "r1",
        "manifest_key": f"words/{snapshot}.json",
        "files": 3,
        "total_bytes": 300,
        "new_bytes": 30,
        "requests": 2,
        "seconds": 0.5,
    }
    return SnapshotRow(**{**facts, **changes})


def record_snapshot(store: ControlStore, vault: SnapshotVault, stream: str, snapshot: str) -> None:
    """Let the catalogue know a snapshot of a vault."""
    manifest, key = vault.manifest(snapshot), vault.manifest_key(snapshot)
    store.snapshots.record(build_snapshot_row(stream, manifest, key))


def register(
    store: ControlStore,
    replica: str,
    *,
    stream: str = "words",
    slot: Slot = Slot.PRIMARY,
    desired: Switches = PRIMARY,
    rollout: int = 0,
) -> ReplicaRow | None:
    return store.replicas.register(
        id=replica,
        stream=stream,
        slot=slot,
        desired=desired,
        host="here",
        folder=f"replicas/{replica}",
        rollout=rollout,
    )


def decide(store: ControlStore, epochs: int, *, stream: str = "words") -> None:
    for epoch in range(epochs):
        store.epochs.propose(a_proposal(epoch, stream=stream))


def lose(store: ControlStore, table: sa.Table, *numbers: int, stream: str = "words") -> None:
    """Let the control store lose epochs of its epoch log or its ledger."""
    with store._database.write() as connection:
        for rows in (ledger_copies, table) if table is ledger else (table,):
            lost = sa.delete(rows).where(rows.c.stream == stream, rows.c.epoch.in_(numbers))
            connection.execute(lost)


def set_decision_time(store: ControlStore, stream: str, seconds: float) -> None:
    """Let an epoch of a stream have come every so many seconds."""
    moment = sa.cast(epochs.c.epoch, sa.Double) * seconds
    statement = epochs.update().where(epochs.c.stream == stream).values(decided_at=moment)
    store._database.execute(statement)


def lost_primary(primary: str | None, *, stream: str = "words") -> IncidentKey:
    return IncidentKey(stream=stream, subject=IncidentSubject.PRIMARY, replica=primary)


def lost_secondary(
    secondary: str | None, *, primary: str = "p1", stream: str = "words"
) -> IncidentKey:
    subject = IncidentSubject.SECONDARY
    return IncidentKey(stream=stream, subject=subject, replica=secondary, primary=primary)


def orphaned(replica: str, *, stream: str = "words") -> IncidentKey:
    return IncidentKey(stream=stream, subject=IncidentSubject.ORPHAN, replica=replica)


def a_recovery(store: ControlStore, key: IncidentKey, **detail: Any) -> Incident:
    """The open incident of a replica that was lost."""
    opened = store.incidents.open_recovery(key, detail=detail, since=store.now())
    assert opened is not None
    return opened


def a_waiting_recovery(store: ControlStore, key: IncidentKey) -> Incident:
    """An incident whose runs kept failing: the next try is far away."""
    opened = a_recovery(store, key)
    for number in range(5):
        store.incidents.claim(opened.id, f"run-{number}", -1.0)
    return opened


def beat(
    store: ControlStore,
    replica: str,
    *,
    state: ReplicaState = ReplicaState.RUNNING,
    epoch: int | None = 4,
    quiet_seconds: float = 0.0,
) -> ReplicaRow:
    return store.replicas.heartbeat(
        replica,
        state=state,
        observed=PRIMARY,
        observed_generation=1,
        snapshot_served=0,
        epoch=epoch,
        quiet_seconds=quiet_seconds,
    )


TTL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FailoverView:
    """What a secondary saw before it decided to take over."""

    secondary: str = "s1"
    primary: str | None = "p1"
    lease: Lease | None = None
    stream: str = "words"


def a_failover(
    store: ControlStore, *, stream: str = "words", primary: str = "p1", secondary: str = "s1"
) -> FailoverView:
    """A running stream whose primary holds the lease, and a secondary that looked."""
    store.streams.declare(stream, {}, "active_standby")
    store.streams.desire(stream, DesiredState.RUNNING)
    assert register(store, primary, stream=stream) is not None
    assert register(store, secondary, stream=stream, slot=Slot.SECONDARY, desired=OFF) is not None
    lease = store.leases.take(stream, primary, TTL_SECONDS)
    assert lease is not None
    return FailoverView(secondary=secondary, primary=primary, lease=lease, stream=stream)


def take_over(store: ControlStore, look: FailoverView) -> Lease | None:
    return store.takeovers.take(
        look.stream,
        look.secondary,
        primary=look.primary,
        observed=look.lease,
        ttl_seconds=TTL_SECONDS,
        reason="seen dead",
    )


def fence_holder(store: ControlStore, stream: str = "words", *, token: int | None = None) -> bool:
    """Take lease and slot from the holder, as a recovery does that has seen this token."""
    lease = store.leases.get(stream)
    holder = "" if lease is None or lease.holder is None else lease.holder
    return bool(store.takeovers.fence(holder, stream=stream, reason="fenced", token=token))


def held_lease(look: FailoverView) -> Lease:
    assert look.lease is not None
    return look.lease
