"""The stop playbook: ask the replicas of a stream to finish their epoch and leave."""

from collections.abc import Iterator, Mapping
from typing import Any

from ft_policies.stop import Ask, AwaitLeave, LiveReplica, Observed, Step, foreseen, next_step
from ft_policies.tiers import OFF
from orchestration.playbooks.leaving import DEFAULT_PATIENCE_SECONDS, await_leave
from orchestration.playbooks.performing import Journaled, Performed, perform
from resources.control.records import DesiredState, Slot
from resources.project import Project


def stop(
    world: Project, stream: str, run: str, *, patience_seconds: float = DEFAULT_PATIENCE_SECONDS
) -> Iterator[Performed[Step]]:
    """Want a stream not to run, and see it off, unless somebody wants it again meanwhile."""
    world.config.stream(stream)
    if world.store.streams.get(stream) is not None:
        world.store.streams.desire(stream, DesiredState.STOPPED)
    return see_off(world, stream, run, patience_seconds=patience_seconds)


def see_off(
    world: Project, stream: str, run: str, *, patience_seconds: float = DEFAULT_PATIENCE_SECONDS
) -> Iterator[Performed[Step]]:
    """Let the replicas of a stream leave for as long as nobody wants it."""
    store = world.store

    def act(step: Step) -> Mapping[str, Any]:
        match step:
            case Ask():
                return {"generation": store.replicas.desire(step.replica, OFF)}
            case AwaitLeave():
                return await_leave(world, step.replica, patience_seconds=patience_seconds)

    def decide() -> Step | None:
        return next_step(_observed(world, stream))

    journal = Journaled(store=store, stream=stream, playbook="stop", run=run)
    return perform(decide, act, journal)


def stop_plan(world: Project, stream: str) -> list[Step]:
    """What `stop` would do, as far as one look can tell."""
    world.config.stream(stream)
    return foreseen(_observed(world, stream))


def _observed(world: Project, stream: str) -> Observed:
    live = world.store.replicas.of(stream)
    # Read last: who starts the stream says so before he launches a replica.
    row = world.store.streams.get(stream)
    return Observed(
        wanted=row is not None and row.desired is DesiredState.RUNNING,
        live=tuple(
            LiveReplica(id=one.id, primary=one.slot is Slot.PRIMARY, asked=one.desired == OFF)
            for one in live
        ),
    )
