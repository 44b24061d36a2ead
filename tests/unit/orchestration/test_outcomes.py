"""The outcome of an incident: in one line what was noticed, and what each step took."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.playbooks.recover.steps import (
    Fence,
    LaunchSecondary,
    RecoverStep,
    TurnSwitch,
)
from holdfast.ft_policies.tiers import SECONDARY, Switch, Tier
from holdfast.orchestration.outcomes import outcome_of
from holdfast.orchestration.playbooks.base import JournalWriter
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Incident, Phase, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from tests.builders.control_rows import a_recovery, lost_primary, lost_secondary
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_secondary, a_wanted_stream
from tests.fakes.projects import simulated_projects

RECOVERY_SECONDS = 1.5
LOST_P1 = lost_primary("p1", stream=CLICKS)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A stream whose secondary has taken over, and which has a new one."""
    projects = simulated_projects(tmp_path, tier="passive_standby_cold", supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "s1")
        a_secondary(project, "s2", observed=SECONDARY[Tier.PASSIVE_STANDBY_COLD])
        yield project


def an_incident(project: Project, key: str, **detail: float) -> Incident:
    return project.store.incidents.open(
        stream=CLICKS, key=f"{CLICKS}/{key}", kind=IncidentKind.RECOVERY, detail=detail
    )


def done(project: Project, run: str, step: RecoverStep, *, incident: str | None) -> None:
    journal = JournalWriter(
        project=project, stream=CLICKS, playbook="recover", run=run, incident=incident
    )
    journal.write(step, Phase.INTENT)
    journal.write(step, Phase.DONE, 2.0)


def measured(project: Project, name: str, value: float, *, at: float) -> None:
    """As the replica that took over writes it."""
    project.store.samples.write(
        [Sample(stream=CLICKS, replica="s1", name=name, value=value, at=at)]
    )


def test_detection_the_replica_s_own_steps_and_those_of_all_runs_are_reported(
    project: Project,
) -> None:
    incident = a_recovery(
        project.store,
        LOST_P1,
        t_detect_seconds=0.25,
        recovery_seconds=RECOVERY_SECONDS,
        taken_over_by="s1",
    )
    lost_at = incident.opened_at - RECOVERY_SECONDS
    measured(
        project, SampleName.DEPLOY_SECONDS, 9.0, at=lost_at - 60.0
    )  # as a secondary, long before
    measured(project, SampleName.WIRE_RECEIVE_SECONDS, 0.5, at=lost_at + 0.75)
    measured(project, SampleName.REPLAY_SECONDS, 0.75, at=lost_at + 1.5)
    done(project, "asked", Fence("p0", 1, "old"), incident=None)
    done(project, "run-1", LaunchSecondary(), incident=incident.id)
    done(project, "run-2", TurnSwitch("s2", Switch.SYNC, on=True), incident=incident.id)
    outcome = outcome_of(project, incident)
    assert outcome.sentence.startswith("recovered 1.5 s after the last sign of life, passive_")
    assert outcome.timeline == (
        "detected after 0.25 s; wire_receive 0.5 s, replay 0.75 s; "
        "LaunchSecondary 2 s, TurnSwitch sync on 2 s"
    )


def test_what_is_not_known_is_not_reported(project: Project) -> None:
    incident = a_recovery(project.store, lost_secondary(None, primary="s1", stream=CLICKS))
    outcome = outcome_of(project, incident)
    assert outcome.detect_seconds is None
    assert outcome.timeline == "nothing to do"


def test_a_stream_that_was_never_away_lacked_redundancy_since_the_last_sign_of_life(
    project: Project,
) -> None:
    reported = a_recovery(project.store, LOST_P1, t_detect_seconds=2.0, recovery_seconds=0.0)
    outcome = outcome_of(project, reported)
    assert outcome.recovery_seconds == 0.0
    assert outcome.redundancy_seconds >= 2.0


def test_a_sensor_that_saw_the_loss_does_not_make_the_stream_have_been_away(
    project: Project,
) -> None:
    incident = a_recovery(project.store, LOST_P1, t_detect_seconds=2.0)
    measured(project, SampleName.RECOVERY_SECONDS, 0.0, at=incident.opened_at - 1.0)
    assert outcome_of(project, incident).recovery_seconds == 0.0
