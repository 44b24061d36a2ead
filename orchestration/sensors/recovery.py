"""The sensors that request runs: for failed streams, for tiers to switch, for a dead object store.

They observe and request; the work is in runs. What they write (incidents) is safe to write again, so ticks
may be lost or repeated, and several daemons may evaluate them at once. They run side by side
(`sensors.use_threads` in `dagster.yaml`), so that neither a review nor a slow object store delays a
recovery.
"""

import logging
from collections.abc import Callable

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.assets.project_resource import ProjectResource
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.services import RestartPolicy, recovery_priority
from holdfast.observation.review import Reviewer
from holdfast.orchestration.incidents import DueRecovery, due_recoveries
from holdfast.orchestration.jobs.base import CAUSE_TAG, INCIDENT_TAG, PRIORITY_TAG, STREAM_TAG
from holdfast.orchestration.jobs.choices import TierChoice
from holdfast.orchestration.jobs.lifecycle import SwitchConfig, ensure_object_store, switch_tier
from holdfast.orchestration.jobs.recovery import RecoverConfig, recover_stream
from holdfast.orchestration.sensors.tier_review import DueSwitch, due_switches
from holdfast.resources.control_store.records import JsonObject
from holdfast.resources.project import Project

log = logging.getLogger(__name__)

# Dagster's daemon evaluates the sensors every 5 s, in any order. A sensor with an interval of 5 s is
# skipped whenever its turn comes a moment earlier in the round than it did before.
TICK_SECONDS = 3
OBJECT_STORE_PAUSES = RestartPolicy(first_pause_seconds=20.0, longest_pause_seconds=600.0)
REVIEW_SECONDS = 10
_REVIEWER = Reviewer()


class StoreOutage(BaseModel):
    """The cursor: how often a restart of the object store was requested since it was last seen to answer."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    began_at: float = 0.0
    requested_at: float = 0.0
    attempts: int = 0

    @classmethod
    def parse(cls, cursor: str | None) -> "StoreOutage":
        try:
            return cls.model_validate_json(cursor or "{}")
        except ValidationError:
            return cls()

    @property
    def pause_seconds(self) -> float:
        return OBJECT_STORE_PAUSES.pause(self.attempts) if self.attempts else 0.0

    def is_due(self, at: float) -> bool:
        """Whether the pause is over; a request in the future was made before the clock was set back."""
        return not 0.0 <= at - self.requested_at < self.pause_seconds

    def next(self, at: float) -> "StoreOutage":
        """The outage after one more request."""
        began_at = self.began_at if self.attempts else at
        return StoreOutage(began_at=began_at, requested_at=at, attempts=self.attempts + 1)


# Jobs are targeted by name: with a job object Dagster rebuilds the sensor and warns about that.
@dg.sensor(
    job_name=recover_stream.name,
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Requests the recovery of a stream whose primary is dead, silent, stuck or missing, or whose "
    "secondary is lost: one run per incident, no matter how many ticks or daemons.",
)
def recovery_sensor(projects: dg.ResourceParam[ProjectResource]) -> dg.SensorResult:
    return _request_runs(projects, _recoveries, otherwise="no recovery is due")


@dg.sensor(
    job_name=ensure_object_store.name,
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Requests a restart of the embedded object store if it died while streams should run.",
)
def object_store_sensor(
    context: dg.SensorEvaluationContext, projects: dg.ResourceParam[ProjectResource]
) -> dg.SensorResult:
    """Request a restart of the object store.

    A run, not the sensor, starts it: a start may take longer than a tick may, and a run is visible.
    Starting it twice is harmless (one file lock). One that cannot be started (no program, a full disk) would
    fail a run each few seconds, each with an alert, for as long as that lasts: so the pauses between them grow.
    """
    outage = StoreOutage.parse(context.cursor)

    def requests(project: Project) -> list[dg.RunRequest]:
        nonlocal outage
        at = project.clock.now()
        if not _is_down(project):
            outage = StoreOutage()
        elif outage.is_due(at):
            outage = outage.next(at)
            key = f"object-store-{outage.began_at:.0f}-{outage.attempts}"
            return [dg.RunRequest(run_key=key, tags={CAUSE_TAG: "object_store_down"})]
        return []

    result = _request_runs(
        projects,
        requests,
        otherwise="the object store answers, is not needed, or was requested to start a short time ago",
    )
    return dg.SensorResult(
        run_requests=result.run_requests,
        skip_reason=result.skip_reason,
        cursor=outage.model_dump_json(),
    )


@dg.sensor(
    job_name=switch_tier.name,
    minimum_interval_seconds=REVIEW_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reviews the tiers of all streams: predicts recovery times and costs, decides, and "
    "requests the switches of streams in mode `auto`. Each new decision is recorded with its reasons.",
)
def tier_review_sensor(projects: dg.ResourceParam[ProjectResource]) -> dg.SensorResult:
    """Request the switches that are due."""
    return _request_runs(projects, _switches, otherwise="no switch is due")


def _request_runs(
    projects: ProjectResource, requests: Callable[[Project], list[dg.RunRequest]], *, otherwise: str
) -> dg.SensorResult:
    """Request the runs that are due, or say why there are none; an unreachable control store skips the tick."""
    try:
        with projects.open() as project:
            due = requests(project)
            for problem in project.config.problems:
                log.warning("the last version without this problem counts: %s", problem)
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    return dg.SensorResult(run_requests=due, skip_reason=None if due else otherwise)


def _recoveries(project: Project) -> list[dg.RunRequest]:
    """The recoveries that are due, the tightest objective first."""

    def objective(due: DueRecovery) -> float:
        return project.config.stream(due.incident.stream).objective.recovery_time

    return [
        _recovery(due, objective(due)) for due in sorted(due_recoveries(project), key=objective)
    ]


def _recovery(due: DueRecovery, objective_seconds: float) -> dg.RunRequest:
    incident = due.incident
    return dg.RunRequest(
        run_key=due.run_key,
        run_config=dg.RunConfig(
            ops={"recover": RecoverConfig(stream=incident.stream, incident=incident.id)}
        ),
        tags={
            STREAM_TAG: incident.stream,
            INCIDENT_TAG: incident.id,
            CAUSE_TAG: _cause(incident.detail),
            PRIORITY_TAG: str(recovery_priority(objective_seconds)),
        },
    )


def _cause(detail: JsonObject) -> str:
    return str(detail.get("cause") or detail.get("health") or "unknown")


def _is_down(project: Project) -> bool:
    embedded = project.embedded_s3()
    wanted = embedded is not None and project.store.streams.list_wanted()
    return embedded is not None and bool(wanted) and not embedded.alive()


def _switches(project: Project) -> list[dg.RunRequest]:
    return [_switch(due) for due in due_switches(project, _REVIEWER)]


def _switch(due: DueSwitch) -> dg.RunRequest:
    decision = due.decision
    config = SwitchConfig(
        stream=decision.stream, tier=TierChoice(decision.chosen.value), why=decision.reason
    )
    return dg.RunRequest(
        run_key=due.run_key,
        run_config=dg.RunConfig(ops={"switch": config}),
        tags={STREAM_TAG: decision.stream, CAUSE_TAG: "tier_review"},
    )
