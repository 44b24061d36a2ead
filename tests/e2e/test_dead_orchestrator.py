"""Dagster dies, the driver dies while no sensor runs, Dagster comes back: one recovery, no loss.

Then, with a secondary: it takes over, and Dagster restores the redundancy.
"""

import signal
from pathlib import Path

import dagster as dg
import pytest

from holdfast.ft_policies.tiers import Tier
from holdfast.observation.reports.files import NEWEST, report_file
from holdfast.orchestration.jobs.base import INCIDENT_TAG
from holdfast.orchestration.jobs.reports import REPORT_NOW, REPORTS_OF_NOW
from holdfast.orchestration.schedules import UNFINISHED
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Incident
from holdfast.resources.object_store.embedded import EmbeddedS3
from tests.live.dagster_server import LiveDagster, a_live_dagster
from tests.live.stream import NAME, TIERED, LiveStream, a_live_stream

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.crowded,
    pytest.mark.timeout(900),
    # Dagster's client calls the one of GraphQL in an old way.
    pytest.mark.filterwarnings(
        "ignore:Using variable_values and operation_name:DeprecationWarning"
    ),
]


def recoveries(stream: LiveStream) -> list[Incident]:
    """All recovery incidents, the newest first."""
    incidents = stream.project.store.incidents.of(NAME, open_only=False)
    return [incident for incident in incidents if incident.kind == IncidentKind.RECOVERY]


def runs_for(stream: LiveStream, incident: Incident) -> int:
    """How many runs Dagster has made on account of an incident."""
    with dg.DagsterInstance.from_config(str(stream.project.config.home / "dagster")) as instance:
        return instance.get_runs_count(dg.RunsFilter(tags={INCIDENT_TAG: incident.id}))


def restored_after_a_failover(stream: LiveStream) -> Incident:
    """Lose the primary of a stream with a secondary, and let Dagster bring another one."""
    before = len(recoveries(stream))
    stream.switch(Tier.DEPLOYED)
    secondary = stream.secondary()
    stream.signal(signal.SIGKILL)
    stream.await_takeover(secondary, seconds=120)

    def restored() -> bool:
        incidents = recoveries(stream)
        return len(incidents) > before and all(
            incident.closed_at is not None for incident in incidents
        )

    stream.wait(restored, "closed incident of the failover", seconds=240)
    assert stream.holds(Tier.DEPLOYED), stream.story()
    assert stream.primary().id == secondary.id
    newest, *older = recoveries(stream)
    assert len(older) == before, newest
    return newest


def await_reports(stream: LiveStream, dagster: LiveDagster) -> None:
    """Let the daemon start the run that `hourly_reports` requests; its process is none of ours."""
    run = dagster.ask(REPORT_NOW.name)
    stream.wait(lambda: dagster.status_of(run) not in UNFINISHED, "end of the reports", seconds=120)
    assert dagster.status_of(run) is dg.DagsterRunStatus.SUCCESS
    names, home = [key.path[-1] for key in REPORTS_OF_NOW], stream.project.config.home
    assert all(report_file(home, name, part=NEWEST).exists() for name in names)


def test_a_stream_outlives_dagster_and_is_recovered_once_when_dagster_is_back(
    tmp_path: Path,
) -> None:
    with a_live_stream(tmp_path, **TIERED) as stream:
        store = stream.project.store
        with a_live_dagster(stream.project.config) as dagster:
            stream.start()
            dagster.ensure()
            survivor = stream.primary()
            dagster.kill()
            stream.await_epoch(stream.epoch() + 5)
            assert stream.primary().id == survivor.id

            stream.signal(signal.SIGKILL)
            embedded = stream.project.embedded_s3()
            assert isinstance(embedded, EmbeddedS3)
            embedded.stop()
            stream.await_failure()
            fell_at = stream.epoch()

            dagster.ensure()
            stream.await_epoch(fell_at + 5, seconds=240)
            stream.wait(lambda: not store.incidents.of(NAME), "closed incident", seconds=120)
            [incident] = recoveries(stream)
            assert incident.outcome.startswith("recovered")
            assert len(store.replicas.of(NAME, live=False)) == 2

            failover = restored_after_a_failover(stream)
            assert "deployed covered again after" in failover.outcome
            assert "LaunchSecondary" in failover.outcome
            assert runs_for(stream, failover) == 1
            await_reports(stream, dagster)
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof
        assert dagster.is_gone()
