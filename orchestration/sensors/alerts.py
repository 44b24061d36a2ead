"""Alerts: the notifiers that the project declares are called when a run has failed for good."""

import logging
import os
from collections.abc import Iterable, Sequence

import dagster as dg

from holdfast.configs.deployment import Function, Log, NotifyTarget, Webhook
from holdfast.configs.references import load
from holdfast.ft_policies.errors import HoldfastError, PermanentError
from holdfast.orchestration.jobs.base import STREAM_TAG
from holdfast.resources.notifiers import (
    Alert,
    FunctionNotifier,
    LogNotifier,
    Notifier,
    WebhookNotifier,
)

INTERVAL_SECONDS = 10


def alerts(notify: Sequence[NotifyTarget]) -> dg.SensorDefinition:
    """Build the sensor that sends an alert for every failed run."""

    @dg.run_failure_sensor(
        name="alerts",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert with the hint for every failed run, to the targets that `notify` in "
        "configs/holdfast.yaml lists.",
    )
    def sensor(context: dg.RunFailureSensorContext) -> None:
        send_alert(build_alert(context), notify, context.log)

    return sensor


def send_alert(alert: Alert, notify: Iterable[NotifyTarget], log: logging.Logger) -> None:
    """Send an alert to all targets; one that fails is logged, and the others still get it."""
    for target in notify:
        try:
            build_notifier(target).notify(alert)
        except HoldfastError as error:
            log.warning("no alert was sent to %s: %s (%s)", target.kind, error, error.hint)


def build_alert(context: dg.RunFailureSensorContext) -> Alert:
    """Build the alert of a failed run, with error and hint of its first failed step."""
    run = context.dagster_run
    error, hint = context.failure_event.message or "the run failed", ""
    for event in context.get_step_failure_events()[:1]:
        failure = event.step_failure_data
        details = failure.user_failure_data
        if details is not None:
            error = details.description or error
            hint = str(details.metadata["hint"].value) if "hint" in details.metadata else ""
        elif failure.error is not None:
            error = (failure.error.cause or failure.error).message.strip()
    stream = run.tags.get(STREAM_TAG, "")
    return Alert(job=run.job_name, run=run.run_id, stream=stream, error=error, hint=hint)


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
