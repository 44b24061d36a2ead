"""The recover playbook of a stream with a secondary: whatever happens, the tier is covered in the end."""

from contextlib import suppress
from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.ft_policies.playbooks.recover.decide import next_step, plan_recovery
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitCatchUp,
    AwaitSecondaryExit,
    AwaitTakeover,
    EndSecondary,
    Fence,
    GiveUp,
    GiveUpSecondary,
    Launch,
    LaunchSecondary,
    RecoverFacts,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import (
    OFF,
    PRIMARY,
    SECONDARY,
    Switch,
    SwitchChange,
    Switches,
    Tier,
    covered_tier,
)
from tests.fakes.pair import SimulatedPair, SimulatedReplica
from tests.fakes.stream import Crash

HOT = SECONDARY[Tier.PASSIVE_STANDBY_HOT]
STANDBY = SECONDARY[Tier.ACTIVE_STANDBY]


def a_pair(tier: Tier) -> SimulatedPair:
    """A stream whose tier is covered."""
    wanted = SECONDARY[tier]
    return SimulatedPair(
        tier,
        primary=SimulatedReplica("words-p", PRIMARY, PRIMARY, caught_up=True),
        secondary=None if wanted == OFF else SimulatedReplica("words-s", wanted, wanted),
    )


def a_look(
    observed: Switches = HOT,
    desired: Switches | None = None,
    health: Health = Health.HEALTHY,
    *,
    paused: bool = False,
) -> SecondaryView:
    return SecondaryView(
        id="s",
        health=health,
        reason="as given",
        observed=observed,
        desired=observed if desired is None else desired,
        paused=paused,
    )


def seen(
    secondary: SecondaryView | None,
    tier: Tier = Tier.PASSIVE_STANDBY_HOT,
    health: Health = Health.HEALTHY,
    failures: int = 0,
    primary_failures: int = 0,
) -> RecoverFacts:
    return RecoverFacts(
        verdict=HealthVerdict(health, "as given"),
        primary=None if health in (Health.MISSING, Health.STOPPED) else "p",
        token=1,
        failures_in_a_row=primary_failures,
        tier=tier,
        secondary=secondary,
        secondary_failures_in_a_row=failures,
        last_secondary_failure="out of memory",
    )


COMING_UP = a_look(OFF, Switches(deploy=True), Health.STARTING)
LEAVING = a_look(HOT, OFF, Health.STOPPING)
DEAD = a_look(health=Health.DEAD)


@pytest.mark.parametrize(
    ("observed", "step"),
    [
        (seen(a_look()), None),
        (seen(None), LaunchSecondary()),
        (seen(None, failures=2), LaunchSecondary()),
        (seen(None, failures=3), GiveUpSecondary("3 secondaries failed in a row: out of memory")),
        (seen(None, Tier.PASSIVE_REPLICATION), None),
        (seen(COMING_UP), TurnSwitch("s", Switch.DEPLOY, on=True)),
        (seen(DEAD), EndSecondary("s", "as given")),
        (seen(LEAVING), AwaitSecondaryExit("s")),
        (seen(a_look(), Tier.ACTIVE_STANDBY), TurnSwitch("s", Switch.PROCESS, on=True)),
        (seen(a_look(), Tier.PASSIVE_REPLICATION), TurnSwitch("s", Switch.RECEIVE, on=False)),
        (
            seen(a_look(Switches(deploy=True)), Tier.PASSIVE_REPLICATION),
            AwaitSecondaryExit("s"),
        ),
        (seen(COMING_UP, Tier.PASSIVE_REPLICATION), AwaitSecondaryExit("s")),
        (seen(a_look(HOT, STANDBY)), TurnSwitch("s", Switch.SYNC, on=True)),
        (seen(a_look(paused=True), Tier.ACTIVE_STANDBY), None),
        (
            seen(a_look(paused=True), Tier.PASSIVE_REPLICATION),
            TurnSwitch("s", Switch.RECEIVE, on=False),
        ),
        (seen(a_look(), health=Health.DEAD), Fence("p", 1, "as given")),
        (seen(a_look(), health=Health.STUCK), Fence("p", 1, "as given")),
        (seen(a_look(), health=Health.MISSING), AwaitTakeover("s")),
        (seen(a_look(), health=Health.MISSING, primary_failures=3), AwaitTakeover("s")),
        (seen(COMING_UP, health=Health.MISSING), AwaitTakeover("s")),
        (seen(DEAD, health=Health.MISSING), EndSecondary("s", "as given")),
        (seen(LEAVING, health=Health.MISSING), Launch()),
        (seen(None, health=Health.MISSING), Launch()),
        (seen(DEAD, health=Health.REPLAYING), AwaitCatchUp("p")),
        (seen(None, health=Health.STOPPED), None),
        (seen(a_look(), health=Health.STOPPED), AwaitSecondaryExit("s")),
        (seen(DEAD, health=Health.STOPPED), EndSecondary("s", "as given")),
    ],
)
def test_one_look_gives_one_step(observed: RecoverFacts, step: object) -> None:
    assert next_step(observed) == step


def test_a_stream_that_fails_each_time_is_given_up_once_no_replica_can_take_over() -> None:
    assert isinstance(next_step(seen(None, health=Health.MISSING, primary_failures=3)), GiveUp)


@pytest.mark.parametrize(("start", "end"), list(permutations(Tier, 2)))
def test_a_tier_is_changed_one_switch_at_a_time_and_never_below_the_weaker(
    start: Tier, end: Tier
) -> None:
    pair = a_pair(start)
    pair.tier = end
    weaker = min(start.strength, end.strength)
    for _ in pair.recover():
        observed = OFF if pair.secondary is None else pair.secondary.observed
        assert covered_tier(observed).strength >= weaker
    assert pair.held()


@pytest.mark.parametrize(("start", "end"), list(permutations(Tier, 2)))
def test_what_is_planned_is_what_is_done(start: Tier, end: Tier) -> None:
    pair = a_pair(start)
    pair.tier = end
    announced = plan_recovery(pair.observed())
    done = list(pair.recover())
    assert [(type(step), getattr(step, "switch", None)) for step in announced] == [
        (type(step), getattr(step, "switch", None)) for step in done
    ]


def test_a_failover_is_planned_too() -> None:
    steps = plan_recovery(seen(a_look(), health=Health.DEAD))
    assert [type(step) for step in steps[:4]] == [
        Fence,
        AwaitTakeover,
        AwaitCatchUp,
        LaunchSecondary,
    ]
    assert [type(step) for step in plan_recovery(seen(None, failures=3))] == [GiveUpSecondary]


def test_a_desire_of_an_earlier_plan_neither_breaks_nor_lingers() -> None:
    cut = a_look(observed=Switches(deploy=True, receive=True, process=True, sync=True), desired=HOT)
    turn = cut.next_change(STANDBY)
    assert turn == SwitchChange(Switch.SYNC, on=False)
    assert cut.desire_for(turn, STANDBY) == STANDBY


def test_a_query_that_waits_to_be_tried_again_does_not_lose_the_rest() -> None:
    both = SECONDARY[Tier.ACTIVE_REPLICATION]
    dip = a_look(observed=Switches(deploy=True, receive=True), desired=both)
    turn = dip.next_change(both)
    assert turn == SwitchChange(Switch.PROCESS, on=True)
    assert dip.desire_for(turn, both) == both


EVENTS = st.one_of(
    st.sampled_from(["kill primary", "kill secondary", "take over", "follow", "catch up"]),
    st.sampled_from(Tier),
)


@given(
    st.sampled_from(Tier),
    st.lists(st.lists(EVENTS, max_size=3), max_size=12),
    st.lists(st.sampled_from(["lives", "before", "amid", "after"]), max_size=12),
)
def test_the_tier_is_covered_in_the_end_whatever_dies_and_whenever(
    tier: Tier, troubles: list[list[str | Tier]], fates: list[str]
) -> None:
    pair = a_pair(tier)
    pair.fates = list(fates)
    for trouble in troubles:
        for event in trouble:
            pair.befall(event)
        with suppress(Crash):
            next(pair.recover(), None)
    pair.fates = []
    steps = list(zip(range(40), pair.recover(), strict=False))
    assert len(steps) < 40
    assert pair.held(), pair


@given(st.sampled_from(Tier), st.lists(st.sampled_from(["one", "other"]), max_size=24))
def test_two_performers_at_once_hold_the_tier_with_one_secondary(
    tier: Tier, turns: list[str]
) -> None:
    pair = a_pair(Tier.PASSIVE_REPLICATION)
    pair.tier = tier
    pair.befall("kill primary")
    runs = {"one": pair.recover(), "other": pair.recover()}
    for turn in turns:
        next(runs[turn], None)
    for run in runs.values():
        list(run)
    assert pair.held()
    assert pair.born == (1 if tier is Tier.PASSIVE_REPLICATION else 2)
