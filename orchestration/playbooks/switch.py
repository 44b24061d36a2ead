"""The switch playbook: another tier for a stream, while it runs.

The wish is written first. Whoever sees it, this run or after its death the recovery sensor's, does
the same steps towards it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from ft_policies.errors import PermanentError
from ft_policies.foresight import foreseen
from ft_policies.recovery import Step
from ft_policies.tiers import Tier
from orchestration.playbooks.performing import Performed
from orchestration.playbooks.recover import Recovery
from resources.project import Project
from streaming.launching import declare
from streaming.observing import observe


def switch(
    world: Project,
    stream: str,
    tier: Tier,
    run: str,
    *,
    why: str,
    beat: Callable[[], None] = lambda: None,
) -> Iterator[Performed[Step]]:
    """Want another tier of a stream and bring it about; a stopped one gets it when it starts."""
    _check(world, stream, tier)
    if world.store.streams.get(stream) is None:
        declare(world.config, world.store, stream)
    world.store.tiers.desire(stream, tier, why=why, run=run)
    return Recovery(world=world, stream=stream, run=run, playbook="switch", beat=beat).steps()


def switch_plan(world: Project, stream: str, tier: Tier) -> list[Step]:
    """What `switch` would do, as far as one look can tell."""
    _check(world, stream, tier)
    seen = observe(world, stream).observed()
    return foreseen(replace(seen, tier=tier, secondary_failures_in_a_row=0))


def _check(world: Project, stream: str, tier: Tier) -> None:
    objection = world.config.stream(stream).objection_to(tier)
    if objection is not None:
        raise PermanentError(f"{stream} cannot be in {tier}", hint=objection)
