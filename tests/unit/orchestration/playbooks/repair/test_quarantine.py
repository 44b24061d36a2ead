"""What a repair sets aside: whenever the object store fails, nothing is lost, and all can be taken back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine, list_quarantined_runs
from holdfast.resources.control_store.schema import ledger, ledger_copies
from tests.builders.doctor_stream import (
    RUN,
    a_stopped_stream,
    delete_epoch,
    doctor_projects,
    everything,
    finding_kinds,
    pack_key,
    run_repair,
    snapshot_id,
)
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProject

AWAY = TransientError("the object store is away", hint="wait")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProject]:
    """A stream with a damaged snapshot, an epoch that the ledger lacks, and one left-over folder."""
    root = tmp_path_factory.mktemp("patient")
    with doctor_projects(root / "project").open() as opened:
        a_stopped_stream(opened, root / "checkpoint")
        opened.objects.truncate(pack_key(opened, 3), 10)
        opened.store.snapshots.forget(CLICKS, snapshot_id(1))
        for table in (ledger_copies, ledger):
            delete_epoch(opened.store, table, 2)
        unknown = opened.config.home / "replicas" / "clicks-0000000c"
        unknown.mkdir(parents=True)
        (unknown / "replica.log").write_text("left")
        yield opened


@settings(max_examples=25, deadline=None)
@given(repair=st.integers(0, 60), undo=st.integers(0, 60))
def test_a_store_that_fails_at_any_call_changes_nothing_about_the_end(
    project: SimulatedProject, repair: int, undo: int
) -> None:
    before = everything(project)
    runs = {RUN}
    project.objects.plan_failures([None] * repair + [AWAY])
    try:
        run_repair(project)
    except TransientError:
        runs.add("cli-00000002")
        run_repair(project, run="cli-00000002")
    project.objects.plan_failures([])
    assert finding_kinds(project) == []
    project.objects.plan_failures([None] * undo + [AWAY])
    for run in sorted(runs & set(list_runs_with_retries(project)), reverse=True):
        undone(project, run)
    project.objects.plan_failures([])
    assert list_quarantined_runs(project, CLICKS) == []
    assert everything(project) == before


def list_runs_with_retries(project: SimulatedProject) -> list[str]:
    try:
        return list_quarantined_runs(project, CLICKS)
    except TransientError:
        return list_quarantined_runs(project, CLICKS)


def undone(project: SimulatedProject, run: str) -> None:
    try:
        Quarantine(project, CLICKS, run).undo()
    except TransientError:
        if run in list_quarantined_runs(project, CLICKS):
            Quarantine(project, CLICKS, run).undo()


def test_a_run_that_has_set_nothing_aside_is_an_error_that_names_those_that_have(
    tmp_path: Path,
) -> None:
    with doctor_projects(tmp_path / "project").open() as project:
        a_stopped_stream(project, tmp_path / "checkpoint")
        with pytest.raises(PermanentError, match="has set nothing of clicks aside") as none:
            Quarantine(project, CLICKS, "cli-9").undo()
        assert none.value.hint == "name one of the runs that have: none"
        project.objects.truncate(pack_key(project, 3), 10)
        run_repair(project)
        with pytest.raises(PermanentError) as wrong:
            Quarantine(project, CLICKS, "cli-9").confirm()
        assert wrong.value.hint == f"name one of the runs that have: {RUN}"


def test_what_is_there_again_meanwhile_is_left_alone(tmp_path: Path) -> None:
    with doctor_projects(tmp_path / "project").open() as project:
        a_stopped_stream(project, tmp_path / "checkpoint")
        key = pack_key(project, 3)
        project.objects.truncate(key, 10)
        run_repair(project)
        project.objects.put(key, b"whole again")
        Quarantine(project, CLICKS, RUN).undo()
        assert project.objects.get(key) == b"whole again"
