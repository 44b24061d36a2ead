"""Several processes race for the same rows, on both engines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.control.store import ControlStore
from tests.support import control_racers as racing
from tests.support.control_racers import RACERS, Racers
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    with racing.lined_up() as lined_up:
        yield lined_up


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/control.db?timeout=30"
    else:
        with fresh_database() as fresh:
            yield fresh


def test_processes_that_open_a_new_store_at_once_all_find_it_ready(
    racers: Racers, url: str
) -> None:
    assert set(racers.race(racing.open_new_store, url).values()) == {0}


def test_all_proposers_of_an_epoch_read_the_same_winner(racers: Racers, url: str) -> None:
    seen = list(racers.race(racing.propose_thirty_epochs, url).values())
    assert all(one == seen[0] for one in seen)
    with ControlStore.open(url) as store:
        assert store.epochs.between("words", 0, 99) == seen[0]


def test_one_of_several_takers_gets_the_lease(racers: Racers, url: str) -> None:
    tokens = racers.race(racing.take_once, url)
    assert sorted(tokens.values(), key=str) == [1, None, None, None]


def test_a_token_has_one_holder_and_tokens_only_grow(racers: Racers, url: str) -> None:
    tokens = racers.race(racing.take_and_let_go, url)
    everyones = [token for own in tokens.values() for token in own]
    assert len(everyones) == len(set(everyones)) == 20 * RACERS
    assert all(own == sorted(own) for own in tokens.values())
    assert max(everyones) == 20 * RACERS


def test_one_replica_gets_the_slot(racers: Racers, url: str) -> None:
    registered = racers.race(racing.register_primary, url)
    assert sum(registered.values()) == 1
    with ControlStore.open(url) as store:
        [row] = store.replicas.of("words")
        assert registered[row.id]


def test_each_epoch_is_committed_by_one_replica(racers: Racers, url: str) -> None:
    seen = list(racers.race(racing.commit_ten_epochs, url).values())
    for epoch in range(10):
        commits = [one[epoch] for one in seen]
        assert sum(first for first, _ in commits) == 1
        assert len({entry.replica for _, entry in commits}) == 1
    with ControlStore.open(url) as store:
        assert store.ledger.audit("words").disagreements == []


def test_one_failure_seen_by_many_is_one_incident_with_one_owner(racers: Racers, url: str) -> None:
    seen = list(racers.race(racing.report_and_claim, url).values())
    assert len({incident for incident, _ in seen}) == 1
    assert sum(claimed for _, claimed in seen) == 1
