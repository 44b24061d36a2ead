"""`holdfast incidents --close`: by hand, only a kind that no sensor closes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Incident
from holdfast.resources.project import Project
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from tests.builders.recorded_stream import STREAM, a_running_stream, an_open_project
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.leases import FixedToken


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with an_open_project(tmp_path) as project:
        a_running_stream(project, epochs=3, committed=3)
        yield project


def differing(project: Project, replica: str = "odd") -> Incident:
    """A replica that has computed something else than the ledger has."""
    LedgerWriter(project.store, STREAM, replica, FixedToken()).write(2, rows=10, digest="another")
    return project.store.incidents.of(STREAM)[0]


def failing(project: Project) -> Incident:
    return project.store.incidents.open(
        stream=STREAM, key="k", kind=IncidentKind.RECOVERY, detail={}
    )


def stored(project: Project, incident: Incident) -> Incident:
    row = project.store.incidents.get(incident.id)
    assert row is not None
    return row


@pytest.mark.parametrize("command", ["incidents", "status"])
def test_a_digest_that_differs_is_shown_in_a_sentence(
    tmp_path: Path, project: Project, command: str
) -> None:
    differing(project)
    shown = " ".join(run_holdfast(tmp_path, command).stdout.split())
    assert "epoch 2: odd computed another," in shown


def test_it_is_closed_by_the_id_that_is_shown_with_a_reason(
    tmp_path: Path, project: Project
) -> None:
    incident = differing(project)
    result = run_holdfast(
        tmp_path, "incidents", "--close", incident.id[:8], "--why", "it used a clock"
    )
    assert result.exit_code == 0, result.output
    assert "closed by hand: it used a clock" in " ".join(result.stdout.split())
    assert stored(project, incident).outcome == "closed by hand: it used a clock"
    assert holdfast_json(tmp_path, "incidents", "--open")["incidents"] == []


def test_json_has_the_closed_incident(tmp_path: Path, project: Project) -> None:
    incident = differing(project)
    output = holdfast_json(tmp_path, "incidents", STREAM, "--close", incident.id, "--why", "mended")
    [closed] = output["incidents"]
    assert (closed["id"], closed["state"]) == (incident.id, "closed")


@pytest.mark.parametrize(
    "kind", [IncidentKind.INPUT_DIFFERS, IncidentKind.OUTPUT_LOST, IncidentKind.INPUT_REUSED]
)
def test_what_no_sensor_closes_is_closed_by_hand(
    tmp_path: Path, project: Project, kind: IncidentKind
) -> None:
    incident = project.store.incidents.open(stream=STREAM, key="k", kind=kind, detail={})
    result = run_holdfast(tmp_path, "incidents", "--close", incident.id, "--why", "restored")
    assert result.exit_code == 0, result.output
    assert stored(project, incident).outcome == "closed by hand: restored"


def test_a_recovery_is_left_to_the_sensor(tmp_path: Path, project: Project) -> None:
    incident = failing(project)
    result = run_holdfast(tmp_path, "incidents", "--close", incident.id, "--why", "enough")
    assert result.exit_code == 1
    assert "(recovery) cannot be closed by hand" in result.output
    assert "`holdfast recover clicks`" in result.output
    assert stored(project, incident).closed_at is None


def test_one_that_is_closed_keeps_its_outcome(tmp_path: Path, project: Project) -> None:
    incident = differing(project)
    project.store.incidents.close(incident.id, "mended")
    result = run_holdfast(tmp_path, "incidents", "--close", incident.id, "--why", "again")
    assert result.exit_code == 1
    assert "is already closed: mended" in result.output
    assert stored(project, incident).outcome == "mended"


def test_an_id_must_name_exactly_one(tmp_path: Path, project: Project) -> None:
    both = [differing(project), failing(project)]
    none = run_holdfast(tmp_path, "incidents", "--close", "nothing", "--why", "mended")
    assert none.exit_code == 1
    assert "there is no incident 'nothing'" in none.output
    several = run_holdfast(tmp_path, "incidents", "--close", "", "--why", "mended")
    assert several.exit_code == 1
    assert "2 incidents begin with ''" in several.output
    assert all(stored(project, incident).closed_at is None for incident in both)


@pytest.mark.parametrize("options", [("--close", "1f"), ("--why", "mended")])
def test_closing_takes_an_id_and_a_reason(
    tmp_path: Path, project: Project, options: tuple[str, str]
) -> None:
    result = run_holdfast(tmp_path, "incidents", *options)
    assert result.exit_code == 2
    assert "go together" in result.output
