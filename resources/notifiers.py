"""Where alerts go: the log, a webhook, or a function of the user's."""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.client import HTTPException, InvalidURL
from typing import Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock

ANSWER_SECONDS = 10.0
TRIES = 3
PAUSE_SECONDS = 1.0
SERVER_FAULT = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A run that failed, and what can be done about it."""

    job: str
    run: str
    stream: str
    error: str
    hint: str

    @property
    def text(self) -> str:
        """The alert in a line or two."""
        about = f" of {self.stream}" if self.stream else ""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"{self.job}{about} failed: {self.error}{hint}"

    @property
    def facts(self) -> dict[str, str]:
        """The same for a program: the text and each part of it."""
        return {"text": self.text, **asdict(self)}


class Notifier(Protocol):
    """Takes alerts to the operator."""

    def notify(self, alert: Alert) -> None:
        """Deliver an alert; raises if it cannot be delivered."""
        ...


@dataclass(frozen=True, slots=True)
class LogNotifier:
    """Writes alerts to the log."""

    def notify(self, alert: Alert) -> None:
        """Write the alert as an error."""
        log.error("%s", alert.text, extra=asdict(alert))


@dataclass(frozen=True, slots=True)
class WebhookNotifier:
    """Posts alerts as JSON: `text` for chat programs, the facts beside it for others."""

    url: str
    clock: Clock = SYSTEM_CLOCK

    def notify(self, alert: Alert) -> None:
        """Post the alert, a few times if the webhook does not answer."""
        body = json.dumps(alert.facts).encode()
        for left in reversed(range(TRIES)):
            try:
                self._post(body)
            except TransientError:
                if left == 0:
                    raise
                self.clock.sleep(PAUSE_SECONDS)
            else:
                return

    def _post(self, body: bytes) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise PermanentError(
                "the webhook has no URL that begins with http:// or https://",
                hint="notify in configs/holdfast.yaml names the environment variable that has it",
            )
        headers = {"Content-Type": "application/json"}
        try:
            request = Request(self.url, data=body, headers=headers)  # noqa: S310 - looked at above
            with urlopen(request, timeout=ANSWER_SECONDS):  # noqa: S310
                return
        except HTTPError as error:
            refusal = f"the webhook answers {error.code} {error.reason}"
            if error.code < SERVER_FAULT:
                raise PermanentError(refusal, hint="is its URL still right?") from error
            raise TransientError(refusal, hint="it is tried again with the next alert") from error
        except (InvalidURL, ValueError) as error:  # whose words may hold the URL, which is a secret
            raise PermanentError(
                "the webhook's URL cannot be read",
                hint="notify in configs/holdfast.yaml names the environment variable that has it",
            ) from error
        except (OSError, HTTPException) as error:
            raise TransientError(
                f"the webhook does not answer: {error}",
                hint="it is tried again with the next alert",
            ) from error


@dataclass(frozen=True, slots=True)
class FunctionNotifier:
    """Calls a function of the user's, `module:function`, with the facts of an alert."""

    reference: str
    load: Callable[[str], Callable[..., object]]

    def notify(self, alert: Alert) -> None:
        """Import and call the function, once; any error of it or of its module is reported as its own."""
        try:
            self.load(self.reference)(alert.facts)
        except HoldfastError:
            raise
        except Exception as error:
            raise PermanentError(
                f"{self.reference} raised {type(error).__name__}: {error}",
                hint="notify in configs/holdfast.yaml names it; `holdfast check` tests that it is there",
            ) from error
