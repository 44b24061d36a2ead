"""The migrate playbook: what is declared now for a stream that runs by an older declaration.

The wish is a row. Whoever sees it, this run or after its death the recovery sensor's, does the same steps
towards it: they are the recover playbook's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError, TransientError
from ft_policies.foresight import foreseen
from ft_policies.migration import Migration, Protocol
from ft_policies.preflight import needs_trial
from ft_policies.recovery import Step
from orchestration.playbooks.declaring import demand_survivable
from orchestration.playbooks.performing import Performed
from orchestration.playbooks.recover import Recovery
from orchestration.playbooks.trial import demand_fit
from resources.control.records import DesiredState, Rollout, StreamRow
from resources.project import Project
from streaming.launching import demand_folder, located, written
from streaming.observing import observe

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
    world: Project,
    stream: str,
    run: str,
    wish: Wish,
    *,
    beat: Callable[[], None] = lambda: None,
) -> Iterator[Performed[Step]]:
    """Bring what is declared now to a running stream; an error says why it was rolled back.

    One that is under way with the same target is gone on with.
    """
    known, target = _declarations(world, stream)
    rollout = world.store.rollouts.open(stream)
    if rollout is None and _runs_by(known, target) and not wish.again:
        return
    rollout = rollout or _begun(world, known, target, run, wish)
    _demand_same(rollout, target, wish)
    recovery = Recovery(world=world, stream=stream, run=run, playbook="migrate", beat=beat)
    yield from recovery.steps()
    _demand_done(world, rollout)


def migration_plan(world: Project, stream: str, run: str, wish: Wish) -> list[Step]:
    """What `migrate` would do, as far as one look can tell; refused where it would be.

    The target is tried, too, unless the stream had to be asked for a snapshot first.
    """
    known, target = _declarations(world, stream)
    seen, rollout = observe(world, stream).observed(), world.store.rollouts.open(stream)
    if rollout is not None:
        _demand_same(rollout, target, wish)
    elif _runs_by(known, target) and not wish.again:
        return []
    else:
        _preflight(world, known, target, run, wish, may_ask=False)
        number = seen.rollout + 1
        migration = Migration(rollout=number, protocol=wish.protocol, before=seen.rollout)
        seen = replace(seen, migration=migration, rollout=number)
    return foreseen(replace(seen, secondary_failures_in_a_row=0))


def _begun(
    world: Project, known: StreamRow, target: StreamDeclaration, run: str, wish: Wish
) -> Rollout:
    """The wish, written down after a preflight, or another's that was first."""
    _preflight(world, known, target, run, wish, may_ask=True)
    begun = world.store.rollouts.begin(
        stream=target.name,
        target=written(target),
        tier=target.tier,
        protocol=wish.protocol,
        within_seconds=wish.within_seconds,
        may_differ=wish.may_differ,
        why=wish.why,
        run=run,
    )
    begun = begun or world.store.rollouts.open(target.name)
    if begun is None:
        raise TransientError(
            f"another migration of {target.name} has just ended", hint="look at it, and try again"
        )
    return begun


def _demand_same(rollout: Rollout, target: StreamDeclaration, wish: Wish) -> None:
    """Refuse to go on with a migration that is not the one that is asked for."""
    same = rollout.target == written(target) and rollout.protocol is wish.protocol
    if not same or rollout.may_differ is not wish.may_differ:
        raise PermanentError(
            f"another migration of {target.name} is under way: {rollout.protocol}, {rollout.why}",
            hint=f"`holdfast recover {target.name}` sees it through; then migrate",
        )


def _declarations(world: Project, stream: str) -> tuple[StreamRow, StreamDeclaration]:
    """What the stream runs by, and what is written now."""
    target, known = world.config.stream(stream), world.store.streams.get(stream)
    if known is None or known.desired is not DesiredState.RUNNING:
        raise PermanentError(
            f"{stream} does not run, so there is nothing to migrate",
            hint=f"`holdfast start {stream}` starts it by what is declared now",
        )
    return known, located(world.config, target)


def _runs_by(known: StreamRow, target: StreamDeclaration) -> bool:
    return StreamDeclaration.model_validate(known.declaration) == target


def _preflight(
    world: Project,
    known: StreamRow,
    target: StreamDeclaration,
    run: str,
    wish: Wish,
    *,
    may_ask: bool,
) -> None:
    """Refuse what the stream would not survive, before anything of it is touched."""
    demand_survivable(known, target, done="migrated", hint=UNCHANGED)
    demand_folder(world.config, target)
    if wish.again or needs_trial(known.declaration, written(target)):
        demand_fit(world, target, run, may_differ=wish.may_differ, may_ask=may_ask)


def _demand_done(world: Project, rollout: Rollout) -> None:
    for one in world.store.rollouts.history(rollout.stream):
        if one.rollout == rollout.rollout and not one.done:
            raise PermanentError(
                f"{one.stream} was not migrated: {one.outcome or 'it was stopped meanwhile'}",
                hint="the stream goes on as it was declared before; "
                f"`holdfast logs {one.stream}` tells what kept the target",
            )
