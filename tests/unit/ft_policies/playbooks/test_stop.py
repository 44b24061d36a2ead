"""A stop asks each replica once and waits for it, unless the stream is wanted again."""

from dataclasses import replace

from holdfast.ft_policies.playbooks.base import plan_steps
from holdfast.ft_policies.playbooks.stop import (
    AwaitExit,
    LiveReplica,
    RequestExit,
    StopFacts,
    StopStep,
    next_step,
)

PRIMARY = LiveReplica(id="p", primary=True, asked=False)
SECONDARY = LiveReplica(id="s", primary=False, asked=False)
LEAVING = LiveReplica(id="s", primary=False, asked=True)


def planned(facts: StopFacts) -> list[StopStep]:
    return plan_steps(replace(facts, wanted=False), next_step)


def seen(*live: LiveReplica, wanted: bool = False) -> StopFacts:
    return StopFacts(wanted=wanted, live=live)


def test_a_replica_is_asked_once_and_then_waited_for() -> None:
    assert next_step(seen(SECONDARY)) == RequestExit("s")
    assert next_step(seen(LEAVING)) == AwaitExit("s")


def test_nothing_is_left_to_do_when_all_have_left() -> None:
    assert next_step(seen()) is None


def test_a_stream_that_is_wanted_again_is_left_alone() -> None:
    assert next_step(seen(PRIMARY, LEAVING, wanted=True)) is None


def test_the_secondary_is_seen_off_before_the_primary() -> None:
    order = [RequestExit("s"), AwaitExit("s"), RequestExit("p"), AwaitExit("p")]
    assert planned(seen(PRIMARY, SECONDARY)) == order
    assert planned(seen(SECONDARY, PRIMARY)) == order


def test_a_plan_to_stop_is_there_while_the_stream_is_wanted() -> None:
    assert planned(seen(PRIMARY, LEAVING, wanted=True)) == [
        AwaitExit("s"),
        RequestExit("p"),
        AwaitExit("p"),
    ]


def test_who_was_asked_already_is_only_waited_for() -> None:
    assert planned(seen(LEAVING)) == [AwaitExit("s")]
