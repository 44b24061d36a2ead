"""A walk over every change between two tiers, each exactly once."""

import random

from holdfast.ft_policies.tiers import Tier


def seed_random(seed: object) -> random.Random:
    """The same seed, the same chance."""
    return random.Random(str(seed))  # noqa: S311 - not for secrets


def build_circuit(chance: random.Random) -> list[Tier]:
    """Thirty-one tiers, the first and the last the same: all thirty ordered pairs in some order.

    The complete graph of the six tiers has as many edges into each tier as out of it, so going on
    along unused edges only ever ends where it began, and the rests can be spliced in (Hierholzer).
    """
    unused = {tier: _shuffled([to for to in Tier if to is not tier], chance) for tier in Tier}
    trail, walk = [chance.choice(list(Tier))], []
    while trail:
        here = trail[-1]
        if unused[here]:
            trail.append(unused[here].pop())
        else:
            walk.append(trail.pop())
    return walk[::-1]


def _shuffled(tiers: list[Tier], chance: random.Random) -> list[Tier]:
    chance.shuffle(tiers)
    return tiers
