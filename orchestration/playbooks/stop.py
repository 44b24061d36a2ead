"""The stop playbook: ask the replicas of a stream to finish their epoch and leave."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ft_policies.tiers import OFF
from orchestration.playbooks.leaving import DEFAULT_PATIENCE_SECONDS, await_leave
from orchestration.playbooks.performing import Journaled, Performed, perform
from resources.control.records import DesiredState, ReplicaRow, Slot
from streaming.world import World


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
    """Ask each replica once, then wait for it; the secondary first, which is there to take over."""
    for row in sorted(live, key=lambda row: row.slot is Slot.PRIMARY):
        return AwaitLeave(row.id) if row.desired == OFF else Ask(row.id)
    return None


def stop(
    world: World, stream: str, run: str, *, patience_seconds: float = DEFAULT_PATIENCE_SECONDS
) -> Iterator[Performed[StopStep]]:
    """Want a stream not to run, and see it off, unless somebody wants it again meanwhile."""
    world.project.stream(stream)
    if world.store.streams.get(stream) is not None:
        world.store.streams.desire(stream, DesiredState.STOPPED)
    return see_off(world, stream, run, patience_seconds=patience_seconds)


def see_off(
    world: World, stream: str, run: str, *, patience_seconds: float = DEFAULT_PATIENCE_SECONDS
) -> Iterator[Performed[StopStep]]:
    """Let the replicas of a stream leave for as long as nobody wants it."""
    store = world.store

    def act(step: StopStep) -> Mapping[str, Any]:
        match step:
            case Ask():
                return {"generation": store.replicas.desire(step.replica, OFF)}
            case AwaitLeave():
                return await_leave(world, step.replica, patience_seconds=patience_seconds)

    def decide() -> StopStep | None:
        live = store.replicas.of(stream)
        # Read last: who starts the stream says so before he launches a replica.
        row = store.streams.get(stream)
        wanted = row is not None and row.desired is DesiredState.RUNNING
        return None if wanted else next_stop_step(live)

    journal = Journaled(store=store, stream=stream, playbook="stop", run=run)
    return perform(decide, act, journal)
