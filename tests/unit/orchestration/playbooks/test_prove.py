"""A snapshot is proven step by step; which one is chosen, and why none can be."""

from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.base import plan_steps
from holdfast.ft_policies.playbooks.prove import (
    ProveFacts,
    Recompute,
    RecordProof,
    RestoreScratch,
    next_step,
)
from holdfast.orchestration.playbooks.prove import require_provable
from tests.builders.control_rows import a_snapshot
from tests.builders.streams import CLICKS, a_wanted_stream, commit_epochs
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path)


def test_a_snapshot_is_restored_gone_on_from_and_noted() -> None:
    facts = ProveFacts(snapshot="s1", epoch=4)
    assert next_step(facts) == RestoreScratch("s1")
    facts = ProveFacts(snapshot="s1", epoch=4, restored=True)
    assert next_step(facts) == Recompute(5)
    facts = ProveFacts(snapshot="s1", epoch=4, restored=True, agrees=True, seconds=9.5)
    assert next_step(facts) == RecordProof("s1", 9.5)
    assert (
        next_step(ProveFacts(snapshot="s1", epoch=4, restored=True, agrees=True, recorded=True))
        is None
    )


def test_all_steps_are_planned_before_the_first() -> None:
    facts = ProveFacts(snapshot="s1", epoch=4)
    assert plan_steps(facts, next_step) == [
        RestoreScratch("s1"),
        Recompute(5),
        RecordProof("s1", 0.0),
    ]


def test_the_newest_snapshot_is_chosen_after_which_an_epoch_was_committed(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 3)
        for name, epoch in (("s0", 0), ("s1", 1), ("s2", 2)):
            project.store.snapshots.record(a_snapshot(name, epoch, stream=CLICKS))
        assert require_provable(project, CLICKS).id == "s1"
        assert require_provable(project, CLICKS, "s0").id == "s0"
        with pytest.raises(PermanentError, match="no epoch of clicks was committed after s2"):
            require_provable(project, CLICKS, "s2")


def test_without_such_a_snapshot_there_is_nothing_to_prove(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        with pytest.raises(PermanentError, match=r"clicks has no available snapshot$"):
            require_provable(project, CLICKS)
        with pytest.raises(PermanentError, match="clicks has no available snapshot s9"):
            require_provable(project, CLICKS, "s9")


def test_a_proof_is_kept_with_the_snapshot(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        project.store.snapshots.record(a_snapshot("s1", 1, stream=CLICKS))
        project.store.snapshots.record_proof(CLICKS, "s1", 12.5)
        project.store.snapshots.record(a_snapshot("s1", 1, stream=CLICKS))
        newest = project.store.snapshots.newest(CLICKS)
    assert newest is not None
    assert newest.proven_seconds == 12.5
    assert newest.proven_at is not None
