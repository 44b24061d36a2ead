"""Seeing replicas off: who may stay, who is made to leave, and in which order."""

import os
import signal
from pathlib import Path

from holdfast.ft_policies.playbooks.stop import AwaitExit, RequestExit
from holdfast.ft_policies.tiers import OFF
from holdfast.ft_policies.timings import EXIT_WITHIN_SECONDS
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks import waiting
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.playbooks.waiting import ReplicaExit, await_exit
from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState, Slot
from holdfast.resources.process import find_process
from tests.builders.playbooks import (
    a_driven_project,
    a_running_project,
    run_recovery,
    secondary_of,
    take_over,
)
from tests.builders.streams import CLICKS, a_secondary
from tests.fakes.clocks import SteppedClock


def lives(row: ReplicaRow) -> bool:
    process = find_process(row)
    assert process is not None
    return process.is_alive()


def test_a_secondary_that_takes_over_as_patience_ends_is_not_killed(tmp_path: Path) -> None:
    with a_driven_project(tmp_path, tier="deployed") as (project, drivers):
        run_recovery(drivers)
        secondary = secondary_of(project)

        def take_over_once() -> None:
            if observe_stream(project, CLICKS).secondary is not None:
                take_over(project, secondary.id, primary="p")

        result = await_exit(
            project,
            secondary.id,
            slot=Slot.SECONDARY,
            patience_seconds=-1.0,
            keep_alive=take_over_once,
        )
        assert result == ReplicaExit(stayed_as=Slot.PRIMARY)
        assert lives(secondary)


def test_one_that_does_not_leave_in_time_is_ended_and_killed(tmp_path: Path) -> None:
    with a_driven_project(tmp_path, tier="deployed") as (project, drivers):
        run_recovery(drivers)
        secondary = secondary_of(project)
        result = await_exit(project, secondary.id, slot=Slot.SECONDARY, patience_seconds=-1.0)
        assert result.ended is ReplicaState.DEAD
        assert not lives(secondary)


def test_the_claim_is_kept_while_the_process_of_one_that_has_left_lingers(tmp_path: Path) -> None:
    driven = a_driven_project(tmp_path, clock=SteppedClock(), tier="deployed")
    with driven as (project, drivers):
        run_recovery(drivers)
        secondary = secondary_of(project)
        beats: list[int] = []
        process = find_process(secondary)
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        project.store.replicas.end(
            secondary.id, ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA
        )
        await_exit(project, secondary.id, slot=Slot.SECONDARY, keep_alive=lambda: beats.append(1))
        assert len(beats) == EXIT_WITHIN_SECONDS / waiting.POLL_SECONDS + 1, "the last look, too"
        assert not lives(secondary)


def test_what_a_stop_would_do_is_planned_from_one_look(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="active_standby") as project:
        a_secondary(project, "s")
        project.store.replicas.desire("s", OFF)
        assert Stop(project, CLICKS, "run").plan() == [
            AwaitExit("s"),
            RequestExit("p"),
            AwaitExit("p"),
        ]
        assert observe_stream(project, CLICKS).wanted
        assert project.store.journal.of(CLICKS) == []
