"""The rules of the model are the rules of the real tables: the same calls on both have the same results."""

from pathlib import Path

import pytest

from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.playbooks.recover.decide import FAILURES_BEFORE_GIVING_UP
from holdfast.observation.status import observe_stream
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.project import Project
from tests.builders.projects import a_project, stream_yaml
from tests.model.store_pair import FORTH, STREAM, Pair

pytestmark = pytest.mark.timeout(300)

CALLS = 1500


def walk(pair: Pair) -> None:
    for call in range(CALLS):
        pair.walk_on()
        if call % 5 == 0:
            pair.compare()


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_random_calls_have_the_same_results_on_the_real_tables(
    store: ControlStore, seed: int
) -> None:
    pair = Pair(store, seed)
    walk(pair)
    assert len(pair.model.log) > 5
    assert pair.model.history > 0
    assert pair.model.lease is not None
    assert pair.model.lease.token > 10
    assert min(pair.fenced.values()) > 0


@pytest.mark.parametrize("seed", [4, 5])
def test_failures_in_a_row_are_counted_as_on_the_real_tables(
    store: ControlStore, tmp_path: Path, seed: int
) -> None:
    """A recovery run gives the stream up by their number."""
    files = a_project(tmp_path / "project", words=stream_yaml(name=STREAM))
    project = Project(ProjectConfig.load(files), store)
    pair = Pair(
        store,
        seed,
        steps=FORTH,
        count_failures=lambda: observe_stream(project, STREAM).failures_in_a_row,
    )
    walk(pair)
    assert max(pair.failures) >= FAILURES_BEFORE_GIVING_UP
