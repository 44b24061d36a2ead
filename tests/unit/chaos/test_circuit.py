"""The walk of `make chaos` goes over every change of tier once."""

from itertools import pairwise, permutations

import pytest

from holdfast.ft_policies.tiers import Tier
from tests.chaos.circuit import build_circuit, seed_random


@pytest.mark.parametrize("seed", range(20))
def test_a_circuit_has_every_change_of_tier_once_and_ends_where_it_began(seed: int) -> None:
    walk = build_circuit(seed_random(seed))

    assert sorted(pairwise(walk)) == sorted(permutations(Tier, 2))
    assert walk[0] is walk[-1]


def test_the_seed_decides_the_way() -> None:
    assert build_circuit(seed_random(7)) == build_circuit(seed_random(7))
    assert build_circuit(seed_random(7)) != build_circuit(seed_random(8))
