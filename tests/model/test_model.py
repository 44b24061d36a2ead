"""Within the small bound no epoch is lost, doubled or computed from other input, and planted bugs are found.

`make model` searches the full bound.
"""

import pytest

from tests.model.scenarios import PLANTED, SMALL
from tests.model.search import search

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
