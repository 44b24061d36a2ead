"""Asking a running stream for a snapshot now, and waiting until it is in the object store."""

from ft_policies.errors import PermanentError, TransientError
from resources.clock import SYSTEM_CLOCK
from resources.control.records import SnapshotRow
from resources.project import Project
from streaming.observing import observe

LOOK_SECONDS = 0.2


def snapshot_now(
    world: Project, stream: str, *, patience_seconds: float = 120.0
) -> SnapshotRow | None:
    """The newest snapshot once it covers every epoch committed before the request."""
    seen = observe(world, stream)
    if seen.primary is None:
        raise PermanentError(
            f"{stream} does not run, so there is nothing new to ship",
            hint=f"`holdfast start {stream}`, or `holdfast snapshots list {stream}`",
        )
    number = world.store.replicas.request_snapshot(seen.primary.id)
    deadline = SYSTEM_CLOCK.monotonic() + patience_seconds
    while True:
        row = world.store.replicas.get(seen.primary.id)
        if row is None or row.state.ended:
            raise TransientError(
                f"{seen.primary.id} ended before it had shipped",
                hint="the stream is recovered; ask again",
            )
        if row.snapshot_served >= number:
            return world.store.snapshots.newest(stream)
        if SYSTEM_CLOCK.monotonic() > deadline:
            raise TransientError(
                f"no snapshot of {stream} within {patience_seconds:.0f} s",
                hint="is the object store reachable? See `holdfast logs`",
            )
        SYSTEM_CLOCK.sleep(LOOK_SECONDS)
