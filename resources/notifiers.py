"""Where alerts go: the log, a webhook, or a user's function."""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from http.client import HTTPException, InvalidURL
from typing import Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock

ANSWER_SECONDS = 5.0
TRIES = 3
PAUSE_SECONDS = 1.0
SERVER_FAULT = 500

log = logging.getLogger(__name__)


class AlertKind(StrEnum):
    """The event that an alert is about."""

    RUN_FAILED = "run_failed"
    OBJECTIVE_MISSED = "objective_missed"
    CHECK_FAILED = "check_failed"
    INCIDENT_OPEN = "incident_open"
    SENSOR_FAILED = "sensor_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An event that needs an operator: its cause, and a hint what to do; one alert per `key`."""

    kind: AlertKind = AlertKind.RUN_FAILED
    key: str = ""
    stream: str
    error: str
    hint: str
    job: str = ""
    run: str = ""

    @property
    def text(self) -> str:
        """The alert as one line, and the hint as a second."""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        if self.kind is not AlertKind.RUN_FAILED:
            return f"{self.stream}: {self.error}{hint}"
        stream = f" of {self.stream}" if self.stream else ""
        return f"{self.job}{stream} failed: {self.error}{hint}"

    def as_dict(self) -> dict[str, str]:
        """The text and each field, for programs."""
        return {"text": self.text, **asdict(self)}


class Notifier(Protocol):
    """Delivers alerts to the operator."""

    def notify(self, alert: Alert) -> None:
        """Deliver an alert; raises if it cannot be delivered."""
        ...


@dataclass(frozen=True, slots=True)
class LogNotifier:
    def notify(self, alert: Alert) -> None:
        log.error("%s", alert.text, extra=asdict(alert))


@dataclass(frozen=True, slots=True)
class WebhookNotifier:
    """Posts alerts as JSON: `text` for chat programs, the fields beside it for other programs."""

    url: str
    clock: Clock = SYSTEM_CLOCK

    def notify(self, alert: Alert) -> None:
        """Post the alert; retries if the webhook does not answer."""
        body = json.dumps(alert.as_dict()).encode()
        for tries_left in reversed(range(TRIES)):
            try:
                self._post(body)
            except TransientError:
                if tries_left == 0:
                    raise
                self.clock.sleep(PAUSE_SECONDS)
            else:
                return

    def _post(self, body: bytes) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise PermanentError(
                "the webhook's URL does not begin with http:// or https://",
                hint="correct the environment variable that `notify` in configs/holdfast.yaml names",
            )
        headers = {"Content-Type": "application/json"}
        try:
            request = Request(self.url, data=body, headers=headers)  # noqa: S310 - scheme checked above
            with urlopen(request, timeout=ANSWER_SECONDS):  # noqa: S310
                return
        except HTTPError as error:
            refusal = f"the webhook answered {error.code} {error.reason}"
            if error.code < SERVER_FAULT:
                raise PermanentError(refusal, hint="check the URL of the webhook") from error
            raise TransientError(
                refusal, hint="check that the webhook is up; the alert is sent to it again"
            ) from error
        except (InvalidURL, ValueError) as error:  # its text may hold the URL, which is a secret
            raise PermanentError(
                "the webhook's URL is not valid",
                hint="correct the environment variable that `notify` in configs/holdfast.yaml names",
            ) from error
        except (OSError, HTTPException) as error:
            raise TransientError(
                f"the webhook does not answer: {error}",
                hint="check that the webhook is up; the alert is sent to it again",
            ) from error


@dataclass(frozen=True, slots=True)
class FunctionNotifier:
    """Calls a user's function, `module:function`, with the alert as a dict."""

    reference: str
    load: Callable[[str], Callable[..., object]]

    def notify(self, alert: Alert) -> None:
        """Import and call the function once; `PermanentError` if it or its module raises."""
        try:
            self.load(self.reference)(alert.as_dict())
        except HoldfastError:
            raise
        except Exception as error:
            raise PermanentError(
                f"{self.reference} raised {type(error).__name__}: {error}",
                hint="correct the function that `notify` in configs/holdfast.yaml names; run `holdfast check` to test it",
            ) from error
