"""Only the operator gives up the state of a stream, and only if it cannot be had any more."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.snapshots import RetentionVerdict
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.orchestration.playbooks.lost_state import give_up_state
from holdfast.orchestration.retention import prune_epochs
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import DesiredState, SnapshotState
from holdfast.streaming.state.lost_state import require_start
from tests.builders.control_rows import a_snapshot, record_snapshot, set_decision_time
from tests.builders.recorded_stream import a_restorable_stream
from tests.builders.streams import CLICKS
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.projects import SimulatedProject, simulated_projects


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stopped stream with the epochs 0 to 9 or so, and snapshots."""
    with simulated_projects(tmp_path).open() as project:
        a_restorable_stream(project)
        for record in project.vault(CLICKS).list():
            record_snapshot(project.store, project.vault(CLICKS), CLICKS, record.id)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
        yield project


def lose_snapshots(project: SimulatedProject) -> None:
    project.objects.objects.clear()
    for row in project.store.snapshots.of(CLICKS):
        project.store.snapshots.mark(CLICKS, row.id, SnapshotState.DROPPED, "lost")


def test_it_is_given_up_once_and_counted(project: SimulatedProject, tmp_path: Path) -> None:
    store = project.store
    last = store.ledger.last(CLICKS)
    assert last is not None
    rows = store.epochs.rows_between(CLICKS, 0, last.epoch)
    store.retention.prune_epochs(CLICKS, before=3)
    lose_snapshots(project)
    with pytest.raises(PermanentError, match="its epochs before 3 are pruned"):
        require_start(store, CLICKS, project.vault(CLICKS))
    assert [row.kind for row in store.incidents.of(CLICKS)] == [IncidentKind.SNAPSHOTS_LOST]
    assert give_up_state(project, CLICKS, dry_run=True) == rows
    assert store.gaps.of(CLICKS) == []
    assert [give_up_state(project, CLICKS) for _ in range(2)] == [rows, rows]
    assert [(gap.rows, gap.last_entered) for gap in store.gaps.of(CLICKS)] == [(rows, last.epoch)]
    assert require_start(store, CLICKS, project.vault(CLICKS)) == last.epoch
    (incident,) = store.incidents.of(CLICKS, open_only=False)
    assert f"gave up the state of {rows} rows" in incident.outcome
    (facts,) = holdfast_json(tmp_path, "status")["streams"]
    assert (facts["rows_without_state"], facts["skipped_rows"]) == (rows, 0)
    shown = run_holdfast(tmp_path, "status").output.replace("\n", " ")
    assert "continued with empty state" in shown
    assert not any(
        "skipped" in str(finding) for finding in diagnose_stream(project, CLICKS).findings
    )


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ("nothing", "the catalogue has the snapshot"),
        ("lost", "no epoch is pruned, so it can be computed again"),
        ("running", "it is running"),
    ],
)
def test_it_is_not_given_up_needlessly(
    project: SimulatedProject, prepare: str, message: str
) -> None:
    if prepare != "nothing":
        lose_snapshots(project)
    if prepare == "running":
        project.store.retention.prune_epochs(CLICKS, before=3)
        project.store.streams.desire(CLICKS, DesiredState.RUNNING)
    with pytest.raises(PermanentError, match=message):
        give_up_state(project, CLICKS)
    assert project.store.gaps.of(CLICKS) == []


def test_a_loss_that_was_accepted_does_not_cover_the_next_one(project: SimulatedProject) -> None:
    store, last = project.store, project.store.ledger.last(CLICKS)
    assert last is not None
    store.retention.prune_epochs(CLICKS, before=3)
    lose_snapshots(project)
    give_up_state(project, CLICKS)
    store.retention.prune_epochs(CLICKS, before=last.epoch + 1)
    with pytest.raises(PermanentError, match="are pruned"):
        require_start(store, CLICKS, project.vault(CLICKS))


def test_damaged_snapshots_do_not_let_the_epochs_go_that_replace_them(
    project: SimulatedProject,
) -> None:
    store, rows = project.store, project.store.snapshots.of(CLICKS)
    verdicts = [
        RetentionVerdict(snapshot=record, keep=True, reasons=("last",))
        for record in project.vault(CLICKS).list()
    ]
    set_decision_time(store, CLICKS, 1.0)  # long before the restore window
    for state, pruned in ((SnapshotState.DAMAGED, 0), (SnapshotState.AVAILABLE, rows[-1].epoch)):
        for row in rows:
            store.snapshots.mark(CLICKS, row.id, state, "")
        assert prune_epochs(project, CLICKS, verdicts) == pruned


@pytest.mark.parametrize("left", ["damaged", "foreign", "refused"])
def test_a_remaining_snapshot_that_cannot_be_restored_does_not_answer_the_question(
    project: SimulatedProject, left: str
) -> None:
    store, vault = project.store, project.vault(CLICKS)
    *_, last = (record.id for record in vault.list())
    store.snapshots.record(a_snapshot("000000000900-1-r1", 900, stream=CLICKS))  # without object
    assert require_start(store, CLICKS, vault) is None  # older ones can be restored
    project.objects.delete([vault.manifest_key(record.id) for record in vault.list()[:-1]])
    refused = {last} if left == "refused" else set()
    if left == "damaged":
        project.objects.truncate(vault.manifest_key(last), to=20)
    elif left == "foreign":
        manifest = dataclasses.replace(vault.manifest(last), owner="another")
        project.objects.put(vault.manifest_key(last), manifest.encode())
    with pytest.raises(PermanentError, match="the catalogue has 000000000900"):
        require_start(store, CLICKS, vault, refused=refused)
    assert [row.kind for row in store.incidents.of(CLICKS)] == [IncidentKind.SNAPSHOTS_LOST]


def test_snapshots_of_another_project_do_not_let_epochs_go(project: SimulatedProject) -> None:
    vault = project.vault(CLICKS)
    verdicts = [
        RetentionVerdict(snapshot=record, keep=True, reasons=("kept",)) for record in vault.list()
    ]
    set_decision_time(project.store, CLICKS, 1.0)  # long before the restore window
    for record in vault.list():
        manifest = dataclasses.replace(vault.manifest(record.id), owner="another")
        project.objects.put(vault.manifest_key(record.id), manifest.encode())
    assert prune_epochs(project, CLICKS, verdicts) == 0
