"""Within the small bound no epoch is lost, doubled or computed from other input, and planted bugs are found.

`make model` searches the full bound.
"""

import pytest

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover.steps import EndSecondary, Fence, GiveUp
from tests.model.liveness import Moves
from tests.model.orchestration import DECISIONS
from tests.model.scenarios import PLANTED, SMALL
from tests.model.search import search
from tests.model.state import Bound

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", SMALL)
def test_no_interleaving_loses_or_doubles_an_epoch(name: str) -> None:
    result = search(SMALL[name])
    assert result.violation is None, "\n".join(result.trace)
    assert result.at_rest > 0


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_with_the_steps_that_lead_to_it(name: str) -> None:
    result = search(PLANTED[name])
    assert result.violation is not None
    assert result.trace


def test_the_searches_meet_each_way_in_which_a_stream_fails() -> None:
    for kind, one_host in (("kill", True), ("kill", False), ("pause", True), ("hang", True)):
        search(Bound(epochs=1, launches=2, faults=1, kinds=(kind,), one_host=one_host))
    search(Bound(epochs=1, launches=2, faults=1, kinds=("lose",)))
    decided = {(type(step), health) for step, health in DECISIONS.values()}
    fenced = {health for step, health in decided if step is Fence}
    assert fenced >= {Health.DEAD, Health.SILENT, Health.DISPUTED, Health.STUCK}
    assert (GiveUp, Health.FAILED) in decided
    assert EndSecondary in {step for step, _ in decided}


def test_a_circle_without_a_way_out_is_found() -> None:
    moves = Moves()
    for before, after in ((0, 1), (1, 2), (0, 3), (3, 4), (4, 3)):
        moves.add(before, after)
    assert moves.find_restless([2], 5) == 3
    moves.add(4, 2)
    assert moves.find_restless([2], 5) is None
