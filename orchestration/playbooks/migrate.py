"""The migrate playbook: what is declared now for a stream that runs by an older declaration.

The wish is a row. Whoever sees it, this run or after its death the recovery sensor's, does the same steps
towards it: they are the recover playbook's.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError
from ft_policies.foresight import foreseen
from ft_policies.migration import Migration, Protocol
from ft_policies.preflight import needs_trial
from ft_policies.recovery import Step
from orchestration.playbooks.declaring import demand_survivable
from orchestration.playbooks.performing import Performed
from orchestration.playbooks.recover import Recovery
from orchestration.playbooks.restore_drill import PATIENCE_SECONDS, newest_provable
from resources.control.records import DesiredState, Rollout, Slot, StreamRow
from streaming.launching import located, spec_of, written
from streaming.observing import observe
from streaming.world import World

WITHIN_SECONDS = 300.0
UNCHANGED = "nothing was changed; the stream goes on as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a stream is to be migrated, within what time, and why."""

    protocol: Protocol = Protocol.INTERRUPTION_FREE
    within_seconds: float = WITHIN_SECONDS
    may_differ: bool = False
    """Whether the new code may put out something else for the same input."""
    again: bool = False
    """Whether to migrate though the declaration is the same: its code is not."""
    why: str = "asked for"


def migrate(
    world: World,
    stream: str,
    run: str,
    wish: Wish,
    *,
    beat: Callable[[], None] = lambda: None,
) -> Iterator[Performed[Step]]:
    """Bring what is declared now to a running stream; an error says why it was rolled back."""
    rollout = world.store.rollouts.open(stream) or _begun(world, stream, run, wish)
    if rollout is None:
        return
    recovery = Recovery(world=world, stream=stream, run=run, playbook="migrate", beat=beat)
    yield from recovery.steps()
    _demand_done(world, rollout)


def migration_plan(world: World, stream: str, wish: Wish) -> list[Step]:
    """What `migrate` would do, as far as one look can tell; refused where it would be."""
    known, target = _declarations(world, stream)
    seen = observe(world, stream).observed()
    if seen.migration is None:
        if known.declaration == written(target) and not wish.again:
            return []
        demand_survivable(known, target, done="migrated", hint=UNCHANGED)
        migration = Migration(rollout=seen.rollout + 1, protocol=wish.protocol)
        seen = replace(seen, migration=migration, rollout=migration.rollout)
    return foreseen(replace(seen, secondary_failures_in_a_row=0))


def _begun(world: World, stream: str, run: str, wish: Wish) -> Rollout | None:
    """The wish, written down after a preflight; `None` if there is nothing to migrate."""
    known, target = _declarations(world, stream)
    if known.declaration == written(target) and not wish.again:
        return None
    demand_survivable(known, target, done="migrated", hint=UNCHANGED)
    if wish.again or needs_trial(known.declaration, written(target)):
        _try(world, target, run)
    return world.store.rollouts.begin(
        stream=stream,
        target=written(target),
        tier=target.tier,
        protocol=wish.protocol,
        within_seconds=wish.within_seconds,
        may_differ=wish.may_differ,
        why=wish.why,
        run=run,
    )


def _declarations(world: World, stream: str) -> tuple[StreamRow, StreamDeclaration]:
    """What the stream runs by, and what is written now."""
    target, known = world.project.stream(stream), world.store.streams.get(stream)
    if known is None or known.desired is not DesiredState.RUNNING:
        raise PermanentError(
            f"{stream} does not run, so there is nothing to migrate",
            hint=f"`holdfast start {stream}` starts it by what is declared now",
        )
    return known, located(world.project, target)


def _try(world: World, target: StreamDeclaration, run: str) -> None:
    """Go on from the newest snapshot with the target's query for one epoch, without sending anything.

    A stream that is too young to have one has no state that could be refused.
    """
    from streaming.recomputing import recompute  # Spark is slow to import

    known = world.store.snapshots.of(target.name)
    row = newest_provable(world, target.name, known)
    if row is None:
        return
    folder = world.project.home / "drills" / f"{target.name}-{run}"
    checkpoint, vault = folder / "checkpoint", world.vault(target.name)
    try:
        vault.restore(vault.manifest(row.id), checkpoint, durable=False)
        spec = spec_of(world.project, target, Slot.SECONDARY, folder.name, folder)
        spec.save()
        recompute(spec, checkpoint, row.epoch + 1, patience_seconds=PATIENCE_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _demand_done(world: World, rollout: Rollout) -> None:
    for one in world.store.rollouts.history(rollout.stream):
        if one.rollout == rollout.rollout and one.done is False:
            raise PermanentError(
                f"{one.stream} was not migrated: {one.outcome}",
                hint="the stream goes on as it was declared before; "
                f"`holdfast logs {one.stream}` tells what kept the target",
            )
