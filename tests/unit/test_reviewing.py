"""The review: from what was measured to a tier for each stream, kept when it is another one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time

import pytest

from ft_policies.controller import Why
from ft_policies.decisions import Decision
from ft_policies.errors import PermanentError
from ft_policies.tiers import Mode, Tier
from orchestration.minding import due_switches
from orchestration.reviewing import decide_now, review, what_if
from resources.control.records import Sample
from tests.fakes.worlds import (
    CLICKS,
    PATIENT,
    SimulatedWorld,
    a_primary,
    a_wanted_stream,
    simulated_worlds,
)

AT_ONCE = {"mode": "auto", "cool_down": "1ms", "dwell": "1ms"}
STEPS = {
    "t_deploy_seconds": 8.0,
    "t_read_snapshot_seconds": 1.0,
    "read_snapshot_bytes": 300.0,
    "t_wire_receive_seconds": 3.0,
    "t_wire_send_seconds": 0.1,
    "t_replay_seconds": 2.0,
    "replay_rows": 100.0,
}
USE = {"cpu_cores": 0.8, "rss_bytes": 2e9}


@contextmanager
def a_world(root: Path, *, objective: str, **changes: object) -> Iterator[SimulatedWorld]:
    """A stream that runs, of which nothing was measured yet."""
    changes = {"controller": AT_ONCE, "supervision": PATIENT, **changes}
    worlds = simulated_worlds(root, objective={"recovery_time": objective}, **changes)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p")
        yield world


def measured(world: SimulatedWorld, stream: str = CLICKS, *, by: str = "p") -> None:
    """Each step once, in a driver that was launched for it."""
    at = world.store.now() - 1.0
    samples = {**STEPS, **USE}.items()
    world.store.samples.write(
        [
            Sample(stream=stream, replica=by, name=name, value=value, epoch=9, at=at)
            for name, value in samples
        ]
    )


def minds(world: SimulatedWorld) -> list[tuple[Tier, str]]:
    rows = world.store.decisions.history(CLICKS)
    return [(row.chosen, Decision.from_json(row.record).why.name) for row in rows]


def test_a_stream_of_which_nothing_is_known_gets_the_fastest_tier(tmp_path: Path) -> None:
    with a_world(tmp_path, objective="5m") as world:
        [made] = review(world)
        assert (made.chosen, made.why) == (Tier.ACTIVE_REPLICATION, Why.TOO_LITTLE_DATA)
        assert made.acts
        assert "never measured" in made.reason or "data enough" in made.reason


def test_once_it_was_measured_the_cheapest_tier_that_holds_is_enough(tmp_path: Path) -> None:
    with a_world(tmp_path, objective="5m") as world:
        measured(world)
        [made] = review(world)
        assert (made.current, made.chosen) == (Tier.PASSIVE_REPLICATION,) * 2
        assert not made.acts
        cheap = {one.tier: one.money_per_hour for one in made.tiers}
        assert cheap[Tier.PASSIVE_REPLICATION] == min(cheap.values())


def test_a_short_objective_needs_a_secondary_that_processes(tmp_path: Path) -> None:
    supervision = {"heartbeat": "0.1s", "lease": "0.2s"}
    with a_world(tmp_path, objective="1s", supervision=supervision) as world:
        measured(world)
        [due] = due_switches(world)
        assert due.decision.chosen in (Tier.ACTIVE_REPLICATION, Tier.ACTIVE_STANDBY)
        assert due.run_key.startswith(f"{CLICKS}-{due.decision.id}-")


def test_a_mind_is_kept_when_it_changes_and_not_with_every_look(tmp_path: Path) -> None:
    with a_world(tmp_path, objective="5m") as world:
        assert len(due_switches(world)) == len(due_switches(world)) == 1
        assert minds(world) == [(Tier.ACTIVE_REPLICATION, "TOO_LITTLE_DATA")]
        world.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="r")
        assert due_switches(world) == []
        measured(world)
        [due] = due_switches(world)
        assert due.decision.chosen is Tier.PASSIVE_REPLICATION
        assert [tier for tier, _ in minds(world)] == [
            Tier.ACTIVE_REPLICATION,
            Tier.PASSIVE_REPLICATION,
        ]


@pytest.mark.parametrize("mode", [Mode.PINNED, Mode.ADVISE])
def test_a_stream_that_is_pinned_or_advised_is_judged_and_left_alone(
    tmp_path: Path, mode: Mode
) -> None:
    with a_world(tmp_path, objective="1s", controller={**AT_ONCE, "mode": mode.value}) as world:
        measured(world)
        assert due_switches(world) == []
        [(chosen, _)] = minds(world)
        assert chosen is not Tier.PASSIVE_REPLICATION


def test_after_a_change_it_cools_down(tmp_path: Path) -> None:
    with a_world(tmp_path, objective="5m", controller={"mode": "auto", "cool_down": "1h"}) as world:
        [made] = review(world)
        assert (made.chosen, made.why) == (Tier.PASSIVE_REPLICATION, Why.COOLING_DOWN)


def test_intervals_within_bounds_are_chosen_with_the_tier(tmp_path: Path) -> None:
    bounds = {"snapshot_every": {"min": "2s", "max": "2m"}}
    changes = {"controller": {**AT_ONCE, **bounds}, "checkpoint": {"every": "2s"}}
    with a_world(tmp_path, objective="5m", **changes) as world:
        measured(world)
        assert due_switches(world) == []
        chosen = world.store.streams.intervals(CLICKS)
        assert chosen.snapshot_every is not None
        assert chosen.snapshot_every > 2.0
        assert chosen.sync_every is None
        [made] = review(world)
        assert made.snapshot_every == chosen.snapshot_every
        assert not made.acts


def test_a_larger_objective_never_costs_more(tmp_path: Path) -> None:
    with a_world(tmp_path, objective="10s") as world:
        measured(world)
        found = what_if(world, CLICKS, [0.0, 1.0, 5.0, 20.0, 60.0, 600.0])
        costs = [one.money_per_hour for one in found]
        assert costs == sorted(costs, reverse=True)
        assert found[0].tier is Tier.ACTIVE_REPLICATION
        assert found[-1].tier is Tier.PASSIVE_REPLICATION
        assert all(one.seconds <= one.objective_seconds for one in found if one.holds)


def test_the_thesis_estimator_can_be_chosen(tmp_path: Path) -> None:
    controller = {**AT_ONCE, "estimator": "thesis", "weigh_by": "ec2"}
    with a_world(tmp_path, objective="5m", controller=controller) as world:
        measured(world)
        made = decide_now(world, CLICKS)
        assert {one.tier for one in made.tiers} == set(Tier)
        with pytest.raises(PermanentError, match="no stream"):
            decide_now(world, "nobody")


def test_many_streams_are_reviewed_at_once(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(60)]
    worlds = simulated_worlds(
        tmp_path, *names, objective={"recovery_time": "5m"}, controller=AT_ONCE
    )
    with worlds.open() as world:
        for name in names:
            a_wanted_stream(world, name)
            a_primary(world, f"{name}-p", name)
            measured(world, name, by=f"{name}-p")
        review(world)  # fits what was measured, once
        began = process_time()
        found = review(world)
        assert [one.stream for one in found] == sorted(names)
        assert process_time() - began < 1.0
