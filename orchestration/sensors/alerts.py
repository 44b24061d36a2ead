"""Alerts: the receivers that the project declares get each event that needs an operator once.

The cursor keeps which events were queued and what each receiver has not got yet, so a restart of Dagster neither
loses nor repeats an alert.
"""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from holdfast.assets.project_resource import ProjectResource
from holdfast.assets.streams import HEALTH, HEALTHY
from holdfast.assets.tiers import TIER_IS_COVERED
from holdfast.configs.declarations.deployment import Function, Log, NotifyTarget, Webhook
from holdfast.configs.references import load
from holdfast.ft_policies import quantities
from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.ft_policies.health import Health
from holdfast.observation.alerts import find_incident_alerts
from holdfast.orchestration.jobs.base import STREAM_TAG
from holdfast.resources.alert_queue import AlertDelivery, AlertQueue, QueuedAlert
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.notifiers import (
    Alert,
    AlertKind,
    FunctionNotifier,
    LogNotifier,
    Notifier,
    WebhookNotifier,
)

INTERVAL_SECONDS = 10
OVERLAP_SECONDS = 600.0  # runs and incidents may be recorded late, by another clock
MOST_EVENTS = 200
SENSOR_FAILS_SECONDS = 300.0  # a code server that was killed or hangs is back by then
SENSOR_FAILS_TICKS = 3  # after a pause of Dagster one alone says little

log = logging.getLogger(__name__)


class AlertMarks(BaseModel):
    """The cursor; without one, or with one of another version, only events from now on count."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    first_at: float | None = None
    at: float = 0.0
    queued: dict[str, float] = Field({}, validation_alias=AliasChoices("queued", "seen"))
    """When each event was queued; cursors of earlier code have `seen`."""
    failing: tuple[str, ...] = ()
    queues: dict[str, AlertQueue] = {}

    @classmethod
    def parse(cls, cursor: str | None) -> "AlertMarks":
        try:
            return cls.model_validate_json(cursor or "{}")
        except ValidationError:
            return cls()


def alerts(
    notify: Sequence[NotifyTarget], checks: Iterable[dg.AssetCheckKey]
) -> dg.SensorDefinition:
    """Build the sensor that sends an alert for every event that needs an operator."""
    # The incident of a tier that is not covered raises the alert.
    watched = [key for key in checks if key.name != TIER_IS_COVERED]
    delivery, targets = AlertDelivery(), {name_target(target): target for target in notify}

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert with cause and hint for every failed run, missed objective, failed check, and "
        "incident that stays open, to the receivers that `notify` in configs/holdfast.yaml lists.",
    )
    def sensor(
        context: dg.SensorEvaluationContext, projects: dg.ResourceParam[ProjectResource]
    ) -> dg.SensorResult:
        marks = collect(
            context.instance,
            projects,
            AlertMarks.parse(context.cursor),
            receivers=list(targets),
            checks=watched,
        )
        receivers = {name: partial(notify_target, target) for name, target in targets.items()}
        queues = delivery.deliver(marks.queues, receivers, at=SYSTEM_CLOCK.now())
        waiting = sum(len(queue.alerts) for queue in queues.values())
        return dg.SensorResult(
            cursor=marks.model_copy(update={"queues": queues}).model_dump_json(),
            skip_reason=f"{waiting} alerts wait for their receiver"
            if waiting
            else "no alert is due",
        )

    return sensor


def collect(
    instance: dg.DagsterInstance,
    projects: ProjectResource,
    marks: AlertMarks,
    *,
    receivers: Sequence[str],
    checks: Sequence[dg.AssetCheckKey],
) -> AlertMarks:
    """Add the alerts of all new events to the queue of each receiver."""
    at = SYSTEM_CLOCK.now()
    first_at = at if marks.first_at is None else min(marks.first_at, at)  # the clock was set back
    since = max(first_at, marks.at - OVERLAP_SECONDS)
    failing = _failing_checks(instance, checks, marks.failing)
    raised = [
        *_failed_runs(instance, since),
        *_failing_sensors(instance, at),
        *(alert for alert in failing.values() if alert),
    ]
    of_incidents, readable = _of_incidents(projects, since)
    raised.extend(of_incidents)
    new = {alert.key: alert for alert in raised if alert.key not in marks.queued}
    added = [QueuedAlert(**_fields(alert)) for alert in new.values()]
    still_found = {alert.key for alert in raised}
    sent = {
        key: queued_at
        for key, queued_at in {**dict.fromkeys(new, at), **marks.queued}.items()
        if key in still_found or not readable or queued_at >= since - OVERLAP_SECONDS
    }
    return AlertMarks(
        first_at=first_at,
        at=at,
        queued=sent,
        failing=tuple(failing),
        queues={name: marks.queues.get(name, AlertQueue()).add(added) for name in receivers},
    )


def _of_incidents(projects: ProjectResource, since: float) -> tuple[list[Alert], bool]:
    """The alerts of incidents, and whether these can be read; if they cannot for good, that is an alert itself.

    Nothing is recovered then, and no incident would raise an alert.
    """
    try:
        with projects.open() as project:
            return find_incident_alerts(project, closed_since=since), True
    except TransientError as error:
        log.warning("the incidents cannot be read: %s (%s)", error, error.hint)
        return [], False
    except HoldfastError as error:
        alert = Alert(
            kind=AlertKind.INCIDENT_OPEN,
            key=f"{AlertKind.INCIDENT_OPEN}/unreadable",
            stream="all streams",
            error=f"the incidents cannot be read: {error}",
            hint=error.hint,
        )
        return [alert], False


def _failed_runs(instance: dg.DagsterInstance, since: float) -> Iterator[Alert]:
    records = instance.get_run_records(
        dg.RunsFilter(
            statuses=[dg.DagsterRunStatus.FAILURE],
            updated_after=datetime.fromtimestamp(since, tz=UTC),
        ),
        limit=MOST_EVENTS,
    )
    for record in reversed(records):
        yield build_alert(instance, record.dagster_run)


def _failing_sensors(instance: dg.DagsterInstance, at: float) -> Iterator[Alert]:
    """The sensors that have done nothing but fail for minutes; each has one key for as long as it is found."""
    after = at - SENSOR_FAILS_SECONDS
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        ids = state.instigator_origin_id, state.selector_id
        worked = [TickStatus.SUCCESS, TickStatus.SKIPPED]
        if instance.get_ticks(*ids, after=after, statuses=worked, limit=1):
            continue
        failed = instance.get_ticks(
            *ids, after=after, statuses=[TickStatus.FAILURE], limit=SENSOR_FAILS_TICKS
        )
        if len(failed) == SENSOR_FAILS_TICKS:
            error = failed[0].tick_data.error
            cause = (error.cause or error).message.strip() if error else "see its page in Dagster"
            yield Alert(
                kind=AlertKind.SENSOR_FAILED,
                key=f"{AlertKind.SENSOR_FAILED}/{state.selector_id}",
                stream="all streams",
                error=f"the sensor {state.instigator_name} has done nothing but fail for "
                f"{quantities.age(SENSOR_FAILS_SECONDS)}: {cause}",
                hint="open its ticks in Dagster: until it works again, nothing that it requests is done",
            )


def build_alert(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Alert:
    """Build the alert of a failed run, with error and hint of its first failed step."""
    error, hint = "the run failed", ""
    ends = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
    for entry in ends[-1:]:
        error = (entry.dagster_event and entry.dagster_event.message) or error
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)[:1]:
        failure = entry.get_dagster_event().step_failure_data
        details = failure.user_failure_data
        if details is not None:
            error = details.description or error
            hint = str(details.metadata["hint"].value) if "hint" in details.metadata else ""
        elif failure.error is not None:
            error = (failure.error.cause or failure.error).message.strip()
    return Alert(
        key=f"{AlertKind.RUN_FAILED}/{run.run_id}",
        job=run.job_name,
        run=run.run_id,
        stream=run.tags.get(STREAM_TAG, ""),
        error=error,
        hint=hint,
    )


def _failing_checks(
    instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey], was_failing: Collection[str]
) -> dict[str, Alert | None]:
    """The checks whose last evaluation needs an operator; with an alert if the one before did not.

    A check that is being evaluated again counts as before.
    """
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    failing: dict[str, Alert | None] = {}
    for key, record in latest.items():
        name = f"{key.asset_key.to_user_string()}:{key.name}"
        entry = record.event
        event = None if entry is None else entry.dagster_event
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            if name in was_failing:
                failing[name] = None
        elif _needs_operator(event.asset_check_evaluation_data):
            new = name not in was_failing
            failing[name] = (
                _check_alert(event.asset_check_evaluation_data, record.id) if new else None
            )
    return failing


def _needs_operator(evaluation: dg.AssetCheckEvaluation) -> bool:
    """Whether the check failed; that a stream is lost is the alert of its incident, that it lags has none."""
    if evaluation.check_name != HEALTHY:
        return not evaluation.passed
    health = evaluation.metadata.get(HEALTH)
    return health is not None and health.value == Health.LAGGING


def _check_alert(evaluation: dg.AssetCheckEvaluation, number: int) -> Alert:
    asset, stream = evaluation.asset_key.to_user_string(), evaluation.asset_key.path[-1]
    cause = evaluation.description or "see its page in Dagster"
    return Alert(
        kind=AlertKind.CHECK_FAILED,
        key=f"{AlertKind.CHECK_FAILED}/{number}",
        stream=stream,
        error=f"the check {evaluation.check_name} of {asset} failed ({evaluation.severity.value}): {cause}",
        hint=f"open the check in Dagster, and run `holdfast doctor {stream}`",
    )


def _fields(alert: Alert) -> Mapping[str, str]:
    return {name: value for name, value in alert.as_dict().items() if name != "text"}


def name_target(target: NotifyTarget) -> str:
    """The name of a receiver in the cursor and in messages."""
    match target:
        case Log():
            return "log"
        case Webhook():
            return f"webhook {target.url_env}"
        case Function():
            return f"function {target.function}"


def notify_target(target: NotifyTarget, alert: Alert) -> None:
    """Send one alert; a variable that is not set, or a module that is broken, is an error of this receiver."""
    build_notifier(target).notify(alert)


def build_notifier(target: NotifyTarget) -> Notifier:
    match target:
        case Log():
            return LogNotifier()
        case Webhook():
            return WebhookNotifier(_read_url(target.url_env))
        case Function():
            return FunctionNotifier(target.function, load)


def _read_url(variable: str) -> str:
    if variable not in os.environ:
        raise PermanentError(
            f"the environment variable {variable} is not set",
            hint="set it to the URL of the webhook; `notify` in configs/holdfast.yaml names it",
        )
    return os.environ[variable]
