"""Alerts: whoever the project names is told when a run fails for good."""

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
    """The sensor that tells these of every run that has failed."""

    @dg.run_failure_sensor(
        name="alerts",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells whom `notify` in configs/holdfast.yaml names of every run that has failed, with "
        "the hint.",
    )
    def sensor(context: dg.RunFailureSensorContext) -> None:
        tell(alert_of(context), notify, context.log)

    return sensor


def tell(alert: Alert, notify: Iterable[NotifyTarget], log: logging.Logger) -> None:
    """Tell everybody; one who cannot be reached keeps nobody else from hearing it."""
    for told in notify:
        try:
            notifier(told).notify(alert)
        except HoldfastError as error:
            log.warning("%s was not told: %s (%s)", told.kind, error, error.hint)


def alert_of(context: dg.RunFailureSensorContext) -> Alert:
    """What failed, in the words of its first step that did."""
    run = context.dagster_run
    error, hint = context.failure_event.message or "it failed", ""
    for event in context.get_step_failure_events()[:1]:
        failure = event.step_failure_data
        told = failure.user_failure_data
        if told is not None:
            error = told.description or error
            hint = str(told.metadata["hint"].value) if "hint" in told.metadata else ""
        elif failure.error is not None:
            error = (failure.error.cause or failure.error).message.strip()
    stream = run.tags.get(STREAM_TAG, "")
    return Alert(job=run.job_name, run=run.run_id, stream=stream, error=error, hint=hint)


def notifier(told: NotifyTarget) -> Notifier:
    """The one that a declaration names."""
    match told:
        case Log():
            return LogNotifier()
        case Webhook():
            return WebhookNotifier(_url(told.url_env))
        case Function():
            return FunctionNotifier(told.function, load)


def _url(variable: str) -> str:
    if variable not in os.environ:
        raise PermanentError(
            f"the environment variable {variable} is not set",
            hint="notify in configs/holdfast.yaml names it as the place of a webhook's URL",
        )
    return os.environ[variable]
