"""The stop playbook: ask the replicas of a stream to finish their epoch and leave."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ft_policies.tiers import OFF
from orchestration.playbooks.performing import Journaled, Performed, perform
from resources.clock import SYSTEM_CLOCK
from resources.control.records import DesiredState, ReplicaRow, ReplicaState
from streaming.launching import process_of
from streaming.world import World

LOOK_SECONDS = 0.25
DEFAULT_PATIENCE_SECONDS = 90.0
EXIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ask:
    """Turn all switches of a replica off: it finishes its epoch, ships, and leaves."""

    replica: str


@dataclass(frozen=True, slots=True)
class AwaitLeave:
    """Wait for a replica to leave; one that does not in time is ended by force."""

    replica: str


StopStep: TypeAlias = Ask | AwaitLeave


def next_stop_step(live: list[ReplicaRow]) -> StopStep | None:
    """Ask each replica once, then wait for it."""
    for row in live:
        return AwaitLeave(row.id) if row.desired == OFF else Ask(row.id)
    return None


def stop(
    world: World, stream: str, run: str, *, patience_seconds: float = DEFAULT_PATIENCE_SECONDS
) -> Iterator[Performed[StopStep]]:
    """Want a stream not to run, and see it off."""
    store = world.store
    world.project.stream(stream)
    if store.streams.get(stream) is not None:
        store.streams.desire(stream, DesiredState.STOPPED)

    def act(step: StopStep) -> Mapping[str, Any]:
        match step:
            case Ask():
                return {"generation": store.replicas.desire(step.replica, OFF)}
            case AwaitLeave():
                return _await_leave(world, step.replica, patience_seconds)

    journal = Journaled(store=store, stream=stream, playbook="stop", run=run)
    return perform(lambda: next_stop_step(store.replicas.of(stream)), act, journal)


def _await_leave(world: World, replica: str, patience_seconds: float) -> Mapping[str, Any]:
    deadline = SYSTEM_CLOCK.monotonic() + patience_seconds
    while (row := world.store.replicas.get(replica)) is not None and not row.state.ended:
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
