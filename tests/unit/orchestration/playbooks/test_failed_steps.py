"""A step that did not reach what it was for is shown as failed, with the reason, also before a replica is fenced."""

import os
from pathlib import Path
from typing import Any

from holdfast.assets.tiers import steps_table
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitCatchUp,
    AwaitTakeover,
    AwaitTarget,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import SECONDARY, Switch, Tier
from holdfast.observation.playbook_runs import recent_changes
from holdfast.orchestration.playbooks import migrate_steps, recover_secondary
from holdfast.orchestration.playbooks.base import InnerSteps, JournalWriter, StepDone, StepResult
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.recover_secondary import Measured
from holdfast.orchestration.playbooks.waiting import ReplicaExit
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from holdfast.resources.process import ProcessHandle
from holdfast.resources.project import Project
from tests.builders.playbooks import a_running_project, a_waiter, replica_of
from tests.builders.streams import CLICKS, a_heartbeat, a_secondary

S_IS_GONE = "the process of s is gone"


def a_visible_secondary(project: Project, tier: Tier) -> None:
    """A secondary whose process this host can see."""
    a_secondary(project, "s", observed=SECONDARY[tier], alive=False)
    born = ProcessHandle.this().started_at
    project.store.replicas.record_process("s", pid=os.getpid(), pid_started_at=born)


def kill(project: Project, replica: str) -> None:
    """As `kill -9` does: the row of the replica stays as it is."""
    project.store.replicas.record_process(replica, pid=os.getpid(), pid_started_at=1.0)


def test_a_wait_for_a_primary_that_is_killed_meanwhile_has_failed(tmp_path: Path) -> None:
    with a_running_project(tmp_path) as project:
        a_heartbeat(project, "p", epoch=0, state=ReplicaState.STARTING)
        recover = Recover(
            project=project, stream=CLICKS, run="run", keep_alive=lambda: kill(project, "p")
        )
        awaited = recover.act(AwaitCatchUp("p"))
        assert awaited.failure == "the process of p is gone"


def test_a_switch_of_a_secondary_that_is_killed_meanwhile_has_failed(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="passive_standby_cold") as project:
        a_visible_secondary(project, Tier.DEPLOYED)

        def kill_once_asked() -> None:
            if replica_of(project, "s").desired.sync:
                kill(project, "s")

        waiter = a_waiter(project, kill_once_asked)
        turned = recover_secondary.turn_switch(waiter, TurnSwitch("s", Switch.SYNC, on=True))
        assert turned.failure == S_IS_GONE


def test_a_takeover_by_a_secondary_that_is_killed_meanwhile_has_failed(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="deployed") as project:
        a_visible_secondary(project, Tier.DEPLOYED)
        project.store.replicas.end("p", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        kill(project, "s")
        awaited = recover_secondary.await_takeover(a_waiter(project), AwaitTakeover("s"))
        assert (awaited.primary, awaited.failure) == (None, S_IS_GONE)


def test_a_wait_for_a_target_that_is_killed_meanwhile_has_failed(tmp_path: Path) -> None:
    with a_running_project(tmp_path, tier="deployed") as project:
        a_visible_secondary(project, Tier.DEPLOYED)
        kill(project, "s")
        awaited = migrate_steps.await_target(a_waiter(project), AwaitTarget("s"))
        assert awaited.failure == S_IS_GONE


def done(result: StepResult) -> StepDone[Any]:
    return StepDone(step=AwaitCatchUp("p"), seconds=1.0, result=result)


def test_a_step_that_contains_a_failed_one_names_it() -> None:
    inner = InnerSteps([done(Measured({}, failed="no room")), done(Measured({"t": 1.0}))])
    assert inner.failure == "AwaitCatchUp: no room"
    assert inner.as_dict()["failed"] == "AwaitCatchUp: no room"
    assert InnerSteps([done(Measured({}))]).failure == ""


def test_the_table_of_steps_has_the_reason_of_each_failed_step(tmp_path: Path) -> None:
    with a_running_project(tmp_path) as project:
        journal = JournalWriter(project=project, stream=CLICKS, playbook="recover", run="run")
        exited = ReplicaExit(ended=ReplicaState.DEAD, reason="did not exit within 30 s")
        for result in (Measured({}, failed="no room"), exited, StepResult()):
            journal.perform(AwaitCatchUp("p"), lambda _, result=result: result)
        table = steps_table(recent_changes(project.store, CLICKS))
    assert [(row.data["phase"], row.data["reason"]) for row in table.records] == [
        ("failed", "no room"),
        ("failed", "did not exit within 30 s"),
        ("done", ""),
    ]
