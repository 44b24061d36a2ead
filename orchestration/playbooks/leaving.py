"""Seeing a replica off: it leaves by itself, or is made to."""

from collections.abc import Callable, Mapping
from typing import Any

from resources.clock import SYSTEM_CLOCK
from resources.control.records import ReplicaState, Slot
from resources.process import ProcessHandle, process_of
from resources.project import Project

LOOK_SECONDS = 0.25
DEFAULT_PATIENCE_SECONDS = 90.0
EXIT_SECONDS = 60.0
LEAVE_SECONDS = DEFAULT_PATIENCE_SECONDS + EXIT_SECONDS


def await_leave(
    world: Project,
    replica: str,
    *,
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
    slot: Slot | None = None,
    beat: Callable[[], None] = lambda: None,
) -> Mapping[str, Any]:
    """Wait for a replica to leave; one that does not in time is ended by force.

    With `slot`, one that has another by then may stay: its end is noted before its process is ended.
    """
    deadline, forced = SYSTEM_CLOCK.monotonic() + patience_seconds, False
    while (row := world.store.replicas.get(replica)) is not None and not row.state.ended:
        beat()
        if slot is not None and row.slot is not slot:
            return {"stayed_as": row.slot.value}
        process = process_of(row)
        if process is not None and not process.is_alive():
            world.store.replicas.end(replica, ReplicaState.DEAD, "its process was gone", slot=slot)
        elif SYSTEM_CLOCK.monotonic() > deadline:
            reason, forced = f"did not leave in {patience_seconds:.0f} s", True
            world.store.replicas.end(replica, ReplicaState.DEAD, reason, slot=slot)
        else:
            SYSTEM_CLOCK.sleep(LOOK_SECONDS)
    if row is not None and (process := process_of(row)) is not None:
        process.kill() if forced else _see_out(process, beat)
    return {} if row is None else {"ended": row.state, "reason": row.reason, "epoch": row.epoch}


def _see_out(process: ProcessHandle, beat: Callable[[], None]) -> None:
    """Wait for the process of a replica that has ended; one that lingers is killed."""
    deadline = SYSTEM_CLOCK.monotonic() + EXIT_SECONDS
    gone = process.terminate(wait_seconds=0.0, kill=False)
    while not gone and SYSTEM_CLOCK.monotonic() < deadline:
        beat()
        SYSTEM_CLOCK.sleep(LOOK_SECONDS)
        gone = not process.is_alive()
    if not gone:
        process.kill()
