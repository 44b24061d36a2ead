"""The tiers as data, and every way from one to another."""

from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.tiers import (
    OFF,
    PRIMARY,
    SECONDARY,
    Switch,
    SwitchChange,
    Switches,
    Tier,
    covered_tier,
    switch_changes,
)

TRANSITIONS = list(permutations(Tier, 2))
SWITCHES = st.builds(Switches, **{switch.value: st.booleans() for switch in Switch})


def carried_out(now: Switches, turns: tuple[SwitchChange, ...]) -> list[Switches]:
    """The sets of switches on the way, both ends included."""
    sets = [now]
    for turn in turns:
        sets.append(sets[-1].turn(turn.switch, turn.on))
    return sets


def test_each_tier_is_covered_by_its_own_switches() -> None:
    assert {tier: covered_tier(SECONDARY[tier]) for tier in Tier} == {tier: tier for tier in Tier}
    assert covered_tier(PRIMARY) is Tier.ACTIVE_REPLICATION
    assert [tier.strength for tier in Tier] == [5, 4, 3, 2, 1, 0]


def test_switches_that_fit_no_tier_count_for_the_strongest_they_include() -> None:
    assert covered_tier(Switches(receive=True, sync=True)) is Tier.PASSIVE_REPLICATION
    assert covered_tier(Switches(deploy=True, process=True)) is Tier.DEPLOYED
    assert covered_tier(Switches(deploy=True, receive=True, process=True, sync=True)) is (
        Tier.ACTIVE_STANDBY
    )


def test_there_are_thirty_transitions_and_each_arrives() -> None:
    assert len(TRANSITIONS) == 30
    for start, end in TRANSITIONS:
        turns = switch_changes(SECONDARY[start], SECONDARY[end])
        assert turns
        assert carried_out(SECONDARY[start], turns)[-1] == SECONDARY[end]


@pytest.mark.parametrize(("start", "end"), TRANSITIONS)
def test_a_change_is_never_weaker_than_the_weaker_of_its_ends(start: Tier, end: Tier) -> None:
    weaker = min(start.strength, end.strength)
    for switches in carried_out(SECONDARY[start], switch_changes(SECONDARY[start], SECONDARY[end])):
        assert covered_tier(switches).strength >= weaker


@pytest.mark.parametrize(("start", "end"), TRANSITIONS)
def test_a_change_up_only_ever_climbs_and_a_change_down_only_ever_falls(
    start: Tier, end: Tier
) -> None:
    way = carried_out(SECONDARY[start], switch_changes(SECONDARY[start], SECONDARY[end]))
    rises = [covered_tier(b).strength - covered_tier(a).strength for a, b in pairwise(way)]
    up = end.strength > start.strength
    assert all(rise >= 0 for rise in rises) if up else all(rise <= 0 for rise in rises)


@given(SWITCHES, SWITCHES)
def test_a_plan_cut_short_anywhere_and_made_again_is_the_rest_of_it(
    now: Switches, wanted: Switches
) -> None:
    turns = switch_changes(now, wanted)
    for done, switches in enumerate(carried_out(now, turns)):
        assert switch_changes(switches, wanted) == turns[done:]


@given(SWITCHES)
def test_nothing_is_planned_where_all_is_as_wanted(switches: Switches) -> None:
    assert switch_changes(switches, switches) == ()


@given(switches=SWITCHES, switch=st.sampled_from(Switch), on=st.booleans())
def test_a_turn_done_twice_is_a_turn_done_once(
    *, switches: Switches, switch: Switch, on: bool
) -> None:
    once = switches.turn(switch, on)
    assert once.turn(switch, on) == once
    assert (switch in once.on()) is on


def test_everything_is_made_before_anything_is_broken() -> None:
    for start, end in product(Tier, repeat=2):
        turns = [turn.on for turn in switch_changes(SECONDARY[start], SECONDARY[end])]
        assert turns == sorted(turns, reverse=True)
    assert switch_changes(OFF, SECONDARY[Tier.ACTIVE_REPLICATION])[0] == SwitchChange(
        Switch.DEPLOY, on=True
    )
    assert switch_changes(SECONDARY[Tier.ACTIVE_REPLICATION], OFF)[-1] == SwitchChange(
        Switch.DEPLOY, on=False
    )
