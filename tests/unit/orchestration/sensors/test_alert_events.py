"""Which events raise an alert: once each, with cause and hint, also after a restart of Dagster."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    TickData,
    TickStatus,
)
from dagster._utils.error import SerializableErrorInfo

from holdfast.assets.keys import snapshots_key, stream_key
from holdfast.assets.streams import HEALTHY, verdict_metadata
from holdfast.configs.declarations.deployment import Function
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.orchestration.definitions import build_definitions
from holdfast.orchestration.sensors.alerts import AlertMarks, alerts
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import EndedBy, IncidentSubject, ReplicaState
from holdfast.resources.control_store.schema import incidents
from holdfast.resources.project import Project
from tests.builders.control_rows import a_recovery, lost_primary
from tests.builders.recovery_sensor import tick
from tests.builders.streams import CLICKS, a_primary, a_wanted_stream, commit_epochs
from tests.fakes.projects import SimulatedProjects, simulated_projects

CHECKS = [
    dg.AssetCheckKey(snapshots_key(CLICKS), "restorable"),
    dg.AssetCheckKey(stream_key(CLICKS), HEALTHY),
]
heard: list[dict[str, str]] = []


def hear(alert: dict[str, str]) -> None:
    heard.append(alert)


@dataclass
class Watch:
    """The sensor, evaluated by daemons that start again each time: only the cursor is left."""

    projects: SimulatedProjects
    instance: dg.DagsterInstance
    cursor: str | None = None
    kinds: list[str] = field(default_factory=list)

    def tick(self) -> list[str]:
        """The texts of the alerts of one evaluation."""
        heard.clear()
        sensor = alerts([Function(function=f"{__name__}:hear")], CHECKS)
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"projects": self.projects}
        ) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        self.kinds = [alert["kind"] for alert in heard]
        return [alert["text"] for alert in heard]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """Dagster with its storage on disk, as `holdfast up` has it."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:
        yield instance


@pytest.fixture
def watch(tmp_path: Path, instance: dg.DagsterInstance) -> Watch:
    watch = Watch(simulated_projects(tmp_path), instance)
    with watch.projects.open() as project:
        a_wanted_stream(project)
    assert watch.tick() == []
    return watch


def set_back(project: Project, incident: str, seconds: float) -> None:
    """Let an incident have been opened so long ago."""
    at = incidents.c.opened_at - seconds
    statement = incidents.update().where(incidents.c.id == incident).values(opened_at=at)
    project.store._database.execute(statement)


def test_a_stream_that_was_given_up_raises_one_alert_with_cause_and_hint(watch: Watch) -> None:
    with watch.projects.open() as project:
        for number in range(3):
            a_primary(project, f"p{number}")
            ended = f"p{number}", ReplicaState.FAILED, "line 7 is malformed"
            project.store.replicas.end(*ended, by=EndedBy.REPLICA)
        definitions = build_definitions(project.config, watch.projects)
    [request] = tick(watch.projects).run_requests or []
    run = definitions.resolve_job_def("recover_stream").execute_in_process(
        run_config=request.run_config, instance=watch.instance, raise_on_error=False
    )
    assert not run.success
    [text] = watch.tick()
    assert text.startswith(
        "recover_stream of clicks failed: clicks has failed: 3 replicas failed in a row: "
        "line 7 is malformed"
    )
    assert "holdfast start clicks" in text
    assert tick(watch.projects).run_requests == []
    assert watch.tick() == []


def test_a_run_that_died_before_it_could_give_up_is_followed_by_one_that_does(
    watch: Watch,
) -> None:
    with watch.projects.open() as project:
        for number in range(3):
            a_primary(project, f"p{number}")
            project.store.replicas.end(
                f"p{number}", ReplicaState.FAILED, "bad line", by=EndedBy.REPLICA
            )
        assert tick(watch.projects).run_requests
        [incident] = project.store.incidents.of(CLICKS)
        project.store.incidents.claim(incident.id, "killed", -1.0)
    assert tick(watch.projects).run_requests


def test_a_missed_objective_raises_an_alert_as_soon_as_its_time_is_over(watch: Watch) -> None:
    with watch.projects.open() as project:
        incident = a_recovery(
            project.store, lost_primary("p1", stream=CLICKS), reason="the process of p1 is gone"
        )
        assert watch.tick() == []
        set_back(project, incident.id, 60.0)
        [text] = watch.tick()
        assert text.startswith("clicks: has not recovered 6")
        assert (
            "misses the objective of 10 s: the process of p1 is gone\nhint: run `holdfast" in text
        )
        commit_epochs(project, 1)
        project.store.incidents.close(incident.id, "", figures={"recovery_seconds": 61.0})
    assert watch.tick() == [], "it is the same event"


@pytest.mark.parametrize(("seconds", "count"), [(9.0, 0), (11.0, 1)])
def test_a_recovery_that_took_too_long_raises_an_alert_when_its_incident_is_closed(
    watch: Watch, seconds: float, count: int
) -> None:
    with watch.projects.open() as project:
        incident = a_recovery(project.store, lost_primary("p1", stream=CLICKS), reason="gone")
        project.store.incidents.close(incident.id, "", figures={"recovery_seconds": seconds})
    assert len(watch.tick()) == count
    assert watch.kinds == ["objective_missed"] * count
    assert watch.tick() == []


def test_an_event_after_the_clock_was_set_back_raises_an_alert(watch: Watch) -> None:
    ahead = SYSTEM_CLOCK.now() + 1e6
    marks = AlertMarks.parse(watch.cursor)
    watch.cursor = marks.model_copy(update={"first_at": ahead, "at": ahead}).model_dump_json()
    assert watch.tick() == []
    with watch.projects.open() as project:
        incident = a_recovery(project.store, lost_primary("p1", stream=CLICKS), reason="gone")
        project.store.incidents.close(incident.id, "", figures={"recovery_seconds": 11.0})
    assert len(watch.tick()) == 1
    assert watch.tick() == []


def test_an_incident_that_stays_open_raises_an_alert_and_one_without_a_run_at_once(
    watch: Watch,
) -> None:
    with watch.projects.open() as project:
        lost = a_recovery(
            project.store, lost_primary("p1", stream=CLICKS), reason="gone", recovery_seconds=1.0
        )
        assert watch.tick() == []
        set_back(project, lost.id, 901.0)
        [text] = watch.tick()
        assert f"incident {lost.id[:8]} (recovery) is open for 15 min: gone" in text
        project.store.incidents.open(
            stream=CLICKS,
            key="k",
            kind=IncidentKind.DIGEST_DIFFERS,
            detail={"reason": "epoch 7 differs"},
            subject=IncidentSubject.SECONDARY,
        )
        [text] = watch.tick()
        assert "epoch 7 differs" in text
        assert "--close" in text
    watch.projects.failures.append(TransientError("locked", hint="wait"))
    assert watch.tick() == []
    assert watch.tick() == []


def test_incidents_that_cannot_be_read_for_good_raise_one_alert_themselves(watch: Watch) -> None:
    """As with a row of another version, or a project that cannot be opened: nothing is recovered then."""
    with watch.projects.open() as project:
        row = a_recovery(project.store, lost_primary("p1"), reason="gone", stream=CLICKS)
        with project.store._database.write() as connection:
            connection.exec_driver_sql("UPDATE incidents SET kind = 'new'")
        [text] = watch.tick()
        assert text.startswith("all streams: the incidents cannot be read: the control store ")
        assert watch.tick() == []
        with project.store._database.write() as connection:
            connection.exec_driver_sql("UPDATE incidents SET kind = 'recovery'")
        set_back(project, row.id, 3600.0)
        assert watch.kinds == []
        watch.tick()
        assert "incident_open" in watch.kinds


def test_a_check_raises_an_alert_when_it_begins_to_fail(watch: Watch) -> None:
    def evaluated(name: str, *, passed: bool) -> None:
        key = stream_key(CLICKS) if name == HEALTHY else snapshots_key(CLICKS)
        watch.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=key, check_name=name, passed=passed, description="no manifest"
            )
        )

    evaluated("restorable", passed=False)
    evaluated("restorable", passed=False)
    evaluated(HEALTHY, passed=False)
    [text] = watch.tick()
    assert "clicks: the check restorable of snapshots/clicks failed (ERROR): no manifest" in text
    evaluated("restorable", passed=False)
    assert watch.tick() == []
    evaluated("restorable", passed=True)
    assert watch.tick() == []
    evaluated("restorable", passed=False)
    assert len(watch.tick()) == 1
    evaluated("restorable", passed=True)


def test_a_stream_that_begins_to_lag_raises_one_alert(watch: Watch) -> None:
    def evaluated(health: Health) -> None:
        verdict = HealthVerdict(health, f"p1 is {health}")
        watch.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=stream_key(CLICKS),
                check_name=HEALTHY,
                passed=not health.is_alarming,
                metadata=verdict_metadata(verdict),
                description=verdict.reason,
            )
        )

    evaluated(Health.DEAD)
    assert watch.tick() == [], "its incident raises the alert"
    for _ in range(2):
        evaluated(Health.LAGGING)
        [text] = watch.tick()
        assert "the check healthy of streams/clicks failed (ERROR): p1 is lagging" in text
        evaluated(Health.LAGGING)
        assert watch.tick() == []
        evaluated(Health.HEALTHY)
        assert watch.tick() == []


def a_sensor(watch: Watch, name: str) -> InstigatorState:
    """A sensor that Dagster evaluates."""
    location = RegisteredCodeLocationOrigin("holdfast")
    repository = RemoteRepositoryOrigin(location, "__repository__")
    state = InstigatorState(
        RemoteInstigatorOrigin(repository, name), InstigatorType.SENSOR, InstigatorStatus.RUNNING
    )
    return watch.instance.add_instigator_state(state)


def ticked(watch: Watch, sensor: InstigatorState, status: TickStatus, *ages: float) -> None:
    """Evaluations of a sensor, so many seconds ago."""
    for age in ages:
        error = SerializableErrorInfo("KeyError: 'p1'\n", [], "KeyError")
        tick = TickData(
            sensor.instigator_origin_id,
            sensor.instigator_name,
            InstigatorType.SENSOR,
            status,
            SYSTEM_CLOCK.now() - age,
            selector_id=sensor.selector_id,
            run_ids=[],
            error=error if status is TickStatus.FAILURE else None,
        )
        watch.instance.create_tick(tick)


def test_a_sensor_that_only_fails_for_minutes_raises_one_alert(watch: Watch) -> None:
    sensor = a_sensor(watch, "recovery_sensor")
    ticked(watch, sensor, TickStatus.SKIPPED, 400.0)
    ticked(watch, sensor, TickStatus.FAILURE, 390.0, 200.0, 100.0)
    assert watch.tick() == [], "two in these minutes may be what a restart has left"
    ticked(watch, sensor, TickStatus.FAILURE, 5.0)
    [text] = watch.tick()
    assert (
        "the sensor recovery_sensor has done nothing but fail for 5 min: KeyError: 'p1'\nhint"
        in text
    )
    assert watch.kinds == ["sensor_failed"]
    ticked(watch, sensor, TickStatus.FAILURE, 0.0)
    assert watch.tick() == []
    ticked(watch, sensor, TickStatus.SKIPPED, 0.0)
    assert watch.tick() == []


def test_a_sensor_that_sometimes_fails_raises_no_alert(watch: Watch) -> None:
    sensor = a_sensor(watch, "observer")
    ticked(watch, sensor, TickStatus.FAILURE, *(10.0 * number for number in range(9)))
    ticked(watch, sensor, TickStatus.SUCCESS, 250.0)
    assert watch.tick() == []
