"""Seeing a replica off: it leaves by itself, or is made to."""

from collections.abc import Callable, Mapping
from typing import Any

from resources.clock import SYSTEM_CLOCK
from resources.control.records import ReplicaRow, ReplicaState
from streaming.launching import process_of
from streaming.world import World

LOOK_SECONDS = 0.25
DEFAULT_PATIENCE_SECONDS = 90.0
EXIT_SECONDS = 60.0


def await_leave(
    world: World,
    replica: str,
    *,
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
    spare: Callable[[ReplicaRow], bool] = lambda row: False,
    beat: Callable[[], None] = lambda: None,
) -> Mapping[str, Any]:
    """Wait for a replica to leave; one that does not in time is ended by force.

    One that `spare` speaks for meanwhile may stay.
    """
    deadline = SYSTEM_CLOCK.monotonic() + patience_seconds
    while (row := world.store.replicas.get(replica)) is not None and not row.state.ended:
        beat()
        if spare(row):
            return {"stayed_as": row.slot.value}
        process = process_of(row)
        if process is not None and not process.is_alive():
            world.store.replicas.end(replica, ReplicaState.DEAD, "its process was gone")
        elif SYSTEM_CLOCK.monotonic() > deadline:
            if process is not None:
                process.kill()
            world.store.replicas.end(
                replica, ReplicaState.DEAD, f"did not leave in {patience_seconds:.0f} s"
            )
        else:
            SYSTEM_CLOCK.sleep(LOOK_SECONDS)
    if row is not None and (process := process_of(row)) is not None:
        process.terminate(wait_seconds=EXIT_SECONDS)
    return {} if row is None else {"ended": row.state, "reason": row.reason, "epoch": row.epoch}
