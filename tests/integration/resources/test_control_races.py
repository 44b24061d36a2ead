"""Several processes race for the same rows, on both engines."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.resources.control_store.records import DesiredState, Slot
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_failover
from tests.live import racers as racing
from tests.live.postgres import fresh_database
from tests.live.racers import RACERS, Racers

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
    results = list(racers.race(racing.propose_thirty_epochs, url).values())
    assert all(epochs == results[0] for epochs in results)
    with ControlStore.open(url) as store:
        assert store.epochs.between("words", 0, 99) == results[0]


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
    results = list(racers.race(racing.commit_ten_epochs, url).values())
    for epoch in range(10):
        commits = [commits_of_process[epoch] for commits_of_process in results]
        assert sum(first for first, _ in commits) == 1
        assert len({entry.replica for _, entry in commits}) == 1
    with ControlStore.open(url) as store:
        assert store.ledger.audit("words").disagreements == []


def test_no_entry_of_an_ended_history_comes_after_its_end(racers: Racers, url: str) -> None:
    racers.race(racing.commit_beside_a_restore, url)
    with ControlStore.open(url) as store:
        assert store.restores.current_history("words") == 1
        entries = store.ledger.between("words", 0, 10_000)
        assert [entry.epoch for entry in entries] == [0, 1, 2]


def test_a_restore_stops_no_stream_that_another_has_restored(racers: Racers, url: str) -> None:
    racing.begin_restores(url, [f"words{number}" for number in range(30)])
    racers.race(racing.finish_or_stop, url)
    with ControlStore.open(url) as store:
        assert {row.desired for row in store.streams.all()} == {DesiredState.RUNNING}


def test_one_failure_seen_by_many_is_one_incident_with_one_owner(racers: Racers, url: str) -> None:
    results = list(racers.race(racing.report_and_claim, url).values())
    assert len({incident for incident, _ in results}) == 1
    assert sum(claimed for _, claimed in results) == 1


@pytest.mark.parametrize(
    "racer",
    [
        pytest.param(racing.take_over_as_the_same, id="one clock"),
        pytest.param(racing.same_with_clocks_apart, id="clocks apart"),
    ],
)
def test_of_several_takeovers_one_wins(
    racers: Racers, url: str, racer: Callable[[str, str], list[int | None]]
) -> None:
    racing.a_failover_a_round(url)
    tokens = racers.race(racer, url).values()
    for round_ in zip(*tokens, strict=True):
        assert sorted(round_, key=str) == [2, None, None, None]
    with ControlStore.open(url) as store:
        for stream in racing.round_names():
            lease, primary = store.leases.get(stream), store.replicas.live(stream, Slot.PRIMARY)
            assert lease is not None
            assert primary is not None
            assert lease.holder == primary.id == f"{stream}-s"
            assert (lease.token, primary.generation) == (2, 3)


def test_only_the_secondary_that_has_not_ended_wins(racers: Racers, url: str) -> None:
    racing.a_failover_a_round(url)
    racing.end_secondaries(url, "p0", "p1", "p2")
    tokens = racers.race(racing.take_over_as_live_or_ended, url)
    no_tokens: list[int | None] = [None] * racing.ROUNDS
    assert tokens == {"p0": no_tokens, "p1": no_tokens, "p2": no_tokens, "p3": [2] * racing.ROUNDS}


@pytest.mark.parametrize(
    "racer",
    [
        pytest.param(racing.relay, id="one clock"),
        pytest.param(racing.relay_with_clocks_apart, id="clocks apart"),
    ],
)
def test_each_of_many_takeovers_raises_the_token_by_one(
    racers: Racers, url: str, racer: Callable[[str, str], list[tuple[int, int]]]
) -> None:
    with ControlStore.open(url) as store:
        store.streams.declare("words", {}, "active_standby")
        store.streams.desire("words", DesiredState.RUNNING)
    taken = [pair for own in racers.race(racer, url).values() for pair in own]
    assert sorted(taken) == [(token, token + 1) for token in range(racing.TAKEOVERS * RACERS)]


@pytest.mark.parametrize(
    "racer",
    [
        pytest.param(racing.renew_or_take_over, id="one clock"),
        pytest.param(racing.renewal_with_clocks_apart, id="clocks apart"),
    ],
)
def test_a_renewal_counts_or_the_takeover_does(
    racers: Racers, url: str, racer: Callable[[str, str], racing.RenewedOrTaken]
) -> None:
    with ControlStore.open(url) as store:
        a_failover(store)
    results = racers.race(racer, url)
    renewed_at, _ = results.pop("p0")
    [(seen_at, lease)] = [result for result in results.values() if result[1] is not None]
    assert lease is not None
    assert (lease.holder, lease.token) == ("s1", 2)
    # The last renewal that counted is the one that the taker saw; there may have been none.
    assert renewed_at in (seen_at, None)
    with ControlStore.open(url) as store:
        assert store.leases.get("words") == lease


def test_a_launched_primary_or_the_secondary_gets_the_place(racers: Racers, url: str) -> None:
    racing.a_failover_a_round(url)
    racing.end_the_primaries(url)
    results = racers.race(racing.launch_or_take_over, url).values()
    with ControlStore.open(url) as store:
        for stream, round_ in zip(racing.round_names(), zip(*results, strict=True), strict=True):
            [winner] = [winner_id for winner_id in round_ if winner_id is not None]
            primary, lease = store.replicas.live(stream, Slot.PRIMARY), store.leases.get(stream)
            assert primary is not None
            assert primary.id == winner
            assert lease is not None
            taken_over = winner == f"{stream}-s"
            assert (lease.holder == winner) is taken_over
            assert (store.replicas.live(stream, Slot.SECONDARY) is None) is taken_over


def test_a_tier_is_declared_once_and_switched_once(racers: Racers, url: str) -> None:
    switched = racers.race(racing.declare_and_switch, url).values()
    assert [sum(round_) for round_ in zip(*switched, strict=True)] == [1] * racing.ROUNDS
    with ControlStore.open(url) as store:
        for stream in racing.round_names():
            history = [(c.tier_from, c.tier_to) for c in store.tiers.history(stream)]
            assert history == [(None, "deployed"), ("deployed", "active_standby")]
