"""What is declared now for a stream that has a past by an older declaration."""

from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.compatibility import objections
from holdfast.orchestration.playbooks.launch import declare, written
from holdfast.resources.control_store.records import StreamRow
from holdfast.resources.project import Project
from holdfast.streaming.spark.checkpoint import CHECKPOINT_CONF


def apply_declaration(world: Project, stream: str) -> None:
    """Let a stream go by what is declared now, unless a replica of it lives.

    While it runs, its replicas go by what was declared when it started: both by the same.
    """
    if world.store.replicas.of(stream):
        return
    declare(world.config, world.store, stream)
    under_way = world.store.rollouts.open(stream)
    if under_way is not None:
        outcome = "the stream was started anew, by what is declared now"
        world.store.rollouts.abandon(stream, under_way.rollout, outcome)


def require_same_past(world: Project, stream: str, *, done: str) -> None:
    """Refuse a file by which a stream's past would be looked for elsewhere than where it is."""
    target, known = world.config.stream(stream), world.store.streams.get(stream)
    if known is not None:
        hint = "write it in the stream's file as it was, and try again; nothing was changed"
        require_survivable(known, world.config.resolve_paths(target), done=done, hint=hint)


def require_survivable(
    known: StreamRow, target: StreamDeclaration, *, done: str, hint: str
) -> None:
    """Refuse changes that state and output of a stream do not survive; `done` is what was to be."""
    before = StreamDeclaration.model_validate(known.declaration)
    if before == target:
        return
    refused = objections(
        written(before),
        written(target),
        source_conf=_binding(before),
        target_conf=_binding(target),
    )
    if refused:
        reasons = "; ".join(map(str, refused))
        raise PermanentError(f"{target.name} cannot be {done}: {reasons}", hint=hint)


def _binding(stream: StreamDeclaration) -> dict[str, str]:
    """What a checkpoint depends on, as this declaration has it."""
    return {
        key: stream.resources.spark_conf.get(key, usual) for key, usual in CHECKPOINT_CONF.items()
    }
