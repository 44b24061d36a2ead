"""A restore in place and a fork, decided step by step; dying anywhere and beginning again ends the same."""

from contextlib import suppress

from hypothesis import given, strategies as st

from holdfast.ft_policies.playbooks import fork
from holdfast.ft_policies.playbooks.base import plan_steps
from holdfast.ft_policies.playbooks.restore import (
    BeginHistory,
    EndRestore,
    FetchSnapshot,
    MarkSnapshots,
    RestoreFacts,
    RollOutput,
    StartStream,
    StopStream,
    next_step,
)
from tests.fakes.restores import LAST, SimulatedFork, SimulatedRestore
from tests.fakes.stream import Crash

ALL = [
    StopStream(),
    BeginHistory(1, 5),
    MarkSnapshots(1, 5),
    RollOutput(1, 5),
    EndRestore(1),
    StartStream(),
]
FATES = st.lists(st.sampled_from(["lives", "before", "after"]), max_size=14)


def seen(*, running: bool = True, **changes: object) -> RestoreFacts:
    facts = {"history": 1, "epoch": 5, "was_running": running, "wanted": running, "lives": running}
    return RestoreFacts(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_running_stream_is_stopped_taken_back_and_started() -> None:
    assert plan_steps(seen(), next_step) == ALL


def test_a_stopped_stream_is_taken_back_and_stays_stopped() -> None:
    assert plan_steps(seen(running=False), next_step) == ALL[1:-1]


def test_output_that_cannot_be_rolled_is_left() -> None:
    assert RollOutput(1, 5) not in plan_steps(seen(rolled=True), next_step)


def test_a_snapshot_comes_from_elsewhere_before_anything_is_stopped() -> None:
    assert plan_steps(seen(fetch="s1"), next_step) == [FetchSnapshot("s1"), *ALL]


def test_a_replica_that_lives_is_seen_off_even_if_the_history_has_begun() -> None:
    late = seen(running=False, begun=True, marked=True, lives=True)
    assert next_step(late) == StopStream()


def test_what_is_done_is_not_done_again() -> None:
    done = seen(begun=True, marked=True, rolled=True, finished=True)
    assert next_step(done) == StartStream()
    done = seen(begun=True, marked=True, rolled=True, finished=True, caught_up=True)
    assert next_step(done) is None


@given(
    epoch=st.integers(0, LAST),
    was_running=st.booleans(),
    fates=FATES,
    zombie_acts=st.lists(st.booleans(), max_size=30),
)
def test_a_restore_survives_dying_at_any_step_beside_a_zombie(
    *, epoch: int, was_running: bool, fates: list[str], zombie_acts: list[bool]
) -> None:
    stream = SimulatedRestore(
        epoch, was_running=was_running, fates=list(fates), zombie_acts=list(zombie_acts)
    )
    for _ in range(len(fates) + 1):
        with suppress(Crash):
            list(stream.perform())
    stream.zombie()
    assert list(stream.ledger) == list(stream.table) == list(range(epoch + 1))
    assert max((epoch for epoch, _ in stream.countable()), default=-1) <= epoch
    assert stream.finished
    assert stream.wanted == stream.lives == stream.caught_up == was_running


@given(
    epoch=st.integers(0, LAST),
    was_running=st.booleans(),
    schedule=st.lists(st.booleans(), max_size=60),
)
def test_two_who_restore_at_once_leave_the_stream_as_one_does(
    *, epoch: int, was_running: bool, schedule: list[bool]
) -> None:
    stream = SimulatedRestore(epoch, was_running=was_running)
    stream.together(schedule)
    assert list(stream.ledger) == list(stream.table) == list(range(epoch + 1))
    assert stream.finished
    assert stream.wanted == stream.lives == stream.caught_up == was_running


@given(st.sampled_from([None, "s1"]), FATES)
def test_a_fork_survives_dying_at_any_step_and_is_declared_last(
    snapshot: str | None, fates: list[str]
) -> None:
    made = SimulatedFork(snapshot, list(fates))
    for _ in range(len(fates) + 1):
        with suppress(Crash):
            list(made.perform())
        pieces = made.made - {fork.WriteDeclaration}
        whole = {fork.CopyOutput, fork.CopyEpochs} | ({fork.CopySnapshot} if snapshot else set())
        assert (fork.WriteDeclaration not in made.made) or pieces == whole
    assert fork.WriteDeclaration in made.made


def test_a_fork_without_a_snapshot_copies_the_rest() -> None:
    steps = plan_steps(fork.ForkFacts(epoch=5, snapshot=None, file="f.yaml"), fork.next_step)
    assert steps == [fork.CopyOutput(5), fork.CopyEpochs(5), fork.WriteDeclaration("f.yaml")]
