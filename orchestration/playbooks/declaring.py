"""What is declared now for a stream that has a past by an older declaration."""

from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError
from ft_policies.preflight import objections
from resources.control.records import StreamRow
from streaming.launching import declare, located, written
from streaming.spark.checkpoint import CHECKPOINT_CONF
from streaming.world import World


def declare_now(world: World, stream: str) -> None:
    """Let a stream go by what is declared now, unless a replica of it lives.

    While it runs, its replicas go by what was declared when it started: both by the same.
    """
    if world.store.replicas.of(stream):
        return
    declare(world.project, world.store, stream)
    under_way = world.store.rollouts.open(stream)
    if under_way is not None:
        outcome = "the stream was started anew, by what is declared now"
        world.store.rollouts.abandon(stream, under_way.rollout, outcome)


def demand_same_past(world: World, stream: str, *, done: str) -> None:
    """Refuse a file by which a stream's past would be looked for elsewhere than where it is."""
    target, known = world.project.stream(stream), world.store.streams.get(stream)
    if known is not None:
        hint = "write it in the stream's file as it was, and try again; nothing was changed"
        demand_survivable(known, located(world.project, target), done=done, hint=hint)


def demand_survivable(known: StreamRow, target: StreamDeclaration, *, done: str, hint: str) -> None:
    """Refuse changes that state and output of a stream do not survive; `done` is what was to be."""
    before = StreamDeclaration.model_validate(known.declaration)
    if before == target:
        return
    found = objections(
        written(before),
        written(target),
        source_conf=_binding(before),
        target_conf=_binding(target),
    )
    if found:
        told = "; ".join(map(str, found))
        raise PermanentError(f"{target.name} cannot be {done}: {told}", hint=hint)


def _binding(stream: StreamDeclaration) -> dict[str, str]:
    """What a checkpoint depends on, as this declaration has it."""
    return {
        key: stream.resources.spark_conf.get(key, usual) for key, usual in CHECKPOINT_CONF.items()
    }
