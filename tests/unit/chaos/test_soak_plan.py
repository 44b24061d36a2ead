"""What a soak takes from its seed, and what it calls growth; no stream is started."""

from collections import Counter
from itertools import islice
from typing import cast

import pytest

from tests.chaos.soak_faults import Injector
from tests.chaos.soak_plan import (
    BOUNDS,
    FILES,
    KINDS,
    NAMES,
    SMALL_DISK,
    Bound,
    Engine,
    Injection,
    Lane,
    Role,
    Work,
    build_schedule,
    kinds_of,
    list_excesses,
)
from tests.chaos.soak_project import SoakProject

WORK = Work(epochs=100, replicas=4, faults=10, minutes=5.0)


def schedule(seed: int, lane: str, count: int) -> list[Injection]:
    kinds = kinds_of(Lane.STREAM, engine=Engine.SQLITE, names=NAMES)
    return list(islice(build_schedule(seed, lane, kinds), count))


def test_the_same_seed_gives_the_same_faults_and_another_lane_gives_others() -> None:
    assert schedule(3, "words", 40) == schedule(3, "words", 40)
    assert schedule(3, "words", 40) != schedule(3, "lines", 40)
    assert schedule(3, "words", 40) != schedule(4, "words", 40)


def test_each_round_has_every_kind_as_often_as_declared() -> None:
    kinds = kinds_of(Lane.STREAM, engine=Engine.SQLITE, names=NAMES)
    declared = {kind.name: kind.often for kind in kinds}
    size = sum(declared.values())
    faults = schedule(3, "words", 2 * size)
    for injections in (faults[:size], faults[size:]):
        assert Counter(injection.kind.name for injection in injections) == declared


def test_a_fault_lasts_as_long_as_its_kind_allows() -> None:
    for injection in schedule(3, "words", 100):
        shortest, longest = injection.kind.seconds
        assert shortest <= injection.seconds <= longest
        assert 0.0 <= injection.draw < 1.0


def test_a_lane_without_kinds_has_no_faults() -> None:
    assert list(build_schedule(3, "words", [])) == []


def test_only_streams_with_files_lose_their_input_and_only_postgresql_is_restarted() -> None:
    def names(lane: Lane, engine: Engine, *traits: str) -> set[str]:
        return {kind.name for kind in kinds_of(lane, engine=engine, names=NAMES, traits=traits)}

    with_traits = names(Lane.STREAM, Engine.SQLITE, FILES, SMALL_DISK)
    of_files = {"missing-input", "broken-input", "full-disk"}
    assert with_traits - names(Lane.STREAM, Engine.SQLITE) == of_files
    only_postgresql = names(Lane.STORE, Engine.POSTGRESQL) - names(Lane.STORE, Engine.SQLITE)
    assert only_postgresql == {"read-only-database", "restart-database"}


def test_a_subset_of_the_faults_can_be_chosen() -> None:
    chosen = kinds_of(Lane.OPERATOR, engine=Engine.SQLITE, names=["drill", "kill-python"])
    assert [kind.name for kind in chosen] == ["drill"]


def test_every_kind_can_be_injected() -> None:
    injector = Injector(cast("SoakProject", None))
    for kind in KINDS:
        assert callable(injector.find_action(kind))


def test_only_commands_of_operators_are_no_faults() -> None:
    commands = {kind.name: kind.role for kind in KINDS if kind.role is not Role.FAULT}
    assert {kind.lane for kind in KINDS if kind.name in commands} == {Lane.OPERATOR}
    reading = {name for name, role in commands.items() if role is Role.READ}
    assert reading == {"status", "doctor", "snapshot"}


def test_most_turns_of_an_operator_change_the_stream_or_kill_a_command() -> None:
    turns = [kind for kind in KINDS if kind.lane is Lane.OPERATOR for _ in range(kind.often)]
    assert sum(kind.role is Role.READ for kind in turns) * 4 <= len(turns)


def test_a_bound_grows_with_the_work_that_was_done() -> None:
    bound = Bound(fixed=1, per_epoch=0.5, per_replica=2, per_fault=3, per_minute=4)
    assert bound.most(WORK) == pytest.approx(1 + 50 + 8 + 30 + 20)


def test_what_is_above_its_bound_or_has_none_is_named() -> None:
    most = BOUNDS["rows of ledger"].most(WORK)
    assert list_excesses({"rows of ledger": most}, WORK) == []
    assert list_excesses({"rows of ledger": most + 1}, WORK) == ["rows of ledger: 101, at most 100"]
    assert list_excesses({"rows of news": 3.0}, WORK) == ["rows of news: 3, without a bound"]
