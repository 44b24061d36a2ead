"""The one way to take lease and slot from a primary."""

from holdfast.resources.control_store.records import EndedBy, ReplicaState
from holdfast.resources.control_store.store import ControlStore


def fence_primary(
    store: ControlStore,
    primary: str,
    *,
    stream: str,
    reason: str,
    token: int | None = None,
    state: ReplicaState = ReplicaState.FENCED,
    by: EndedBy = EndedBy.PLAYBOOK,
) -> bool:
    """Take the lease from a primary if it holds it, then its slot; return whether the lease was taken.

    With `token` only the observed lease is taken. The lease goes first: from then on nothing that the
    primary still writes counts.
    """
    lease, taken = store.leases.get(stream), False
    if lease is not None and lease.holder == primary:
        taken = store.leases.fence(stream, token=lease.token if token is None else token)
    store.replicas.end(primary, state, reason, by=by)
    return taken
