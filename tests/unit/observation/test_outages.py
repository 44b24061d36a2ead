"""How long streams were without a new commit, whatever drivers lived and died meanwhile."""

from pathlib import Path

import pytest

from holdfast.observation.outages import read_outages
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import IncidentSubject, LedgerEntry
from holdfast.resources.control_store.recoveries import (
    OUTAGE_SINCE,
    lost_at,
    recovered_at,
    recovery_figures,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from tests.builders.streams import CLICKS, a_primary, a_wanted_stream
from tests.fakes.projects import simulated_projects

DETECT = SampleName.DETECT_SECONDS.value


def seconds_of_outage(root: Path, *, detect: float, unrecovered: float | None = None) -> float:
    """Of a primary that was silent for so long when its loss was detected; its successor commits at once.

    `unrecovered`: so long ago another primary was lost, and this one died before it had committed anything.
    """
    with simulated_projects(root).open() as project:
        a_wanted_stream(project)
        a_primary(project, "next")
        detail: dict[str, object] = {DETECT: detect}
        if unrecovered is not None:
            detail[OUTAGE_SINCE] = project.store.now() - unrecovered
        close_by_a_commit(project, detail)
        (outage,) = read_outages(project.store, since_at=project.store.now() - 60.0)[CLICKS]
        assert outage.detect_seconds == detect
        return outage.seconds


def close_by_a_commit(project: Project, detail: dict[str, object]) -> None:
    incident = project.store.incidents.open(
        stream=CLICKS,
        key="k",
        kind=IncidentKind.RECOVERY,
        detail=detail,
        subject=IncidentSubject.PRIMARY,
        replica="lost",
    )
    project.store.ledger.commit(
        LedgerEntry(stream=CLICKS, epoch=0, replica="next", token=9, rows=1, digest="d")
    )
    back_at = recovered_at(project.store, incident)
    assert back_at is not None
    figures = recovery_figures(back_at - lost_at(incident), 10.0)
    project.store.incidents.close(incident.id, "recovered", figures=figures)


@pytest.mark.parametrize(
    "detect", [33.0, 0.1], ids=["the second was killed", "it failed by itself"]
)
def test_a_driver_that_died_before_it_committed_does_not_end_an_outage(
    tmp_path: Path, detect: float
) -> None:
    assert seconds_of_outage(tmp_path, detect=detect, unrecovered=70.0) == pytest.approx(70, abs=5)


def test_a_stuck_primary_and_one_that_was_lost_for_long_are_outages(tmp_path: Path) -> None:
    assert seconds_of_outage(tmp_path / "stuck", detect=90.0) == pytest.approx(90.0, abs=5.0)
    assert seconds_of_outage(tmp_path / "long", detect=4_000.0) == pytest.approx(4_000.0, abs=5.0)


def test_an_incident_without_a_recovery_and_an_open_one_are_no_outages(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        store = project.store
        for key in ("secondary", "open"):
            store.incidents.open(
                stream=CLICKS, key=key, kind=IncidentKind.RECOVERY, detail={DETECT: 1.0}
            )
        secondary = next(row for row in store.incidents.of(CLICKS) if row.key == "secondary")
        store.incidents.close(secondary.id, "launched again")
        assert read_outages(store, since_at=0.0) == {}
