"""Whoever is to be told of a failed run is told, by a real server that answers or does not."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import dagster as dg
import pytest

from holdfast.configs.deployment import Function, Log, Webhook
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.orchestration.jobs.base import STREAM_TAG
from holdfast.orchestration.sensors.alerts import build_alert, send_alert
from holdfast.resources.notifiers import TRIES, Alert, WebhookNotifier
from tests.fakes.clocks import SteppedClock

ALERT = Alert(job="recover_stream", run="r1", stream="clicks", error="no room", hint="make some")

GARBAGE = 0


@dataclass
class Chat:
    """A server that keeps what it is told; `answers` are its next status codes."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    heard: list[dict[str, Any]] = field(default_factory=list)


told_so_far: list[dict[str, str]] = []


def remember(alert: dict[str, str]) -> None:
    told_so_far.append(alert)


def stammer(alert: dict[str, str]) -> None:
    raise ValueError("oh")


@contextmanager
def a_chat(*answers: int) -> Iterator[Chat]:
    chat = Chat(answers=list(answers))

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            chat.heard.append(json.loads(body))
            answer = chat.answers.pop(0) if chat.answers else 200
            if answer == GARBAGE:
                self.wfile.write(b"what?\r\n\r\n")
                return
            self.send_response(answer)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        chat.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield chat
        finally:
            server.shutdown()
            thread.join()


def test_a_webhook_gets_the_text_and_the_facts() -> None:
    with a_chat() as chat:
        WebhookNotifier(chat.url).notify(ALERT)
    [heard] = chat.heard
    assert heard["text"] == "recover_stream of clicks failed: no room\nhint: make some"
    assert (heard["stream"], heard["run"]) == ("clicks", "r1")


def test_a_webhook_that_is_ill_is_tried_again_and_one_that_refuses_is_not() -> None:
    with a_chat(503, 200) as chat:
        WebhookNotifier(chat.url, SteppedClock()).notify(ALERT)
    assert len(chat.heard) == 2
    with a_chat(*[500] * TRIES) as chat, pytest.raises(TransientError, match="answered 500"):
        WebhookNotifier(chat.url, SteppedClock()).notify(ALERT)
    with a_chat(404) as chat, pytest.raises(PermanentError, match="answered 404"):
        WebhookNotifier(chat.url, SteppedClock()).notify(ALERT)
    assert len(chat.heard) == 1
    with pytest.raises(TransientError, match="does not answer"):
        WebhookNotifier(chat.url, SteppedClock()).notify(ALERT)
    with pytest.raises(PermanentError, match="URL does not begin with http"):
        WebhookNotifier("file:///etc/passwd").notify(ALERT)


def test_a_webhook_that_answers_garbage_is_tried_again() -> None:
    with a_chat(GARBAGE) as chat:
        WebhookNotifier(chat.url, SteppedClock()).notify(ALERT)
    assert len(chat.heard) == 2
    with (
        a_chat(*[GARBAGE] * TRIES) as chat,
        pytest.raises(TransientError, match=r"does not answer: what\?"),
    ):
        WebhookNotifier(chat.url, SteppedClock()).notify(ALERT)


@pytest.mark.parametrize(
    "url", ["http://chat:port/s3cret", "http://chat/s3 cret", "http://chat/s3cröt"]
)
def test_a_url_that_is_none_is_told_without_it(url: str) -> None:
    with pytest.raises(PermanentError, match="URL is not valid") as refused:
        WebhookNotifier(url, SteppedClock()).notify(ALERT)
    assert "s3" not in str(refused.value)


def test_a_function_of_the_users_own_is_called_with_the_facts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told_so_far.clear()
    notify = [
        Function(function=f"{__name__}:stammer"),
        Function(function="no_such_module_here:tell"),
        Function(function=f"{__name__}:remember"),
    ]
    send_alert(ALERT, notify, logging.getLogger("sensor"))
    assert told_so_far == [{"text": ALERT.text, **asdict(ALERT)}]
    assert f"no alert was sent to function: {__name__}:stammer raised ValueError: oh" in caplog.text
    assert "no alert was sent to function: cannot load no_such_module_here:tell" in caplog.text


def test_one_who_cannot_be_reached_keeps_nobody_else_from_hearing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notify = [Webhook(url_env="NOT_SET"), Webhook(url_env="CHAT"), Log()]
    with a_chat() as chat, caplog.at_level(logging.WARNING):
        monkeypatch.setenv("CHAT", chat.url)
        send_alert(ALERT, notify, logging.getLogger("sensor"))
    assert len(chat.heard) == 1
    assert (
        "no alert was sent to webhook: the environment variable NOT_SET is not set" in caplog.text
    )
    assert ALERT.text in caplog.text


@dg.op
def explain() -> None:
    raise dg.Failure("no room", metadata={"hint": "make some"}, allow_retries=False)


@dg.op
def stumble() -> None:
    raise ValueError("oh")


@pytest.mark.parametrize(
    ("op", "error", "hint"), [(explain, "no room", "make some"), (stumble, "ValueError: oh", "")]
)
def test_a_failed_run_is_told_in_its_own_words(op: dg.OpDefinition, error: str, hint: str) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        job = dg.GraphDefinition(name="recover_stream", node_defs=[op]).to_job(
            tags={STREAM_TAG: "clicks"}
        )
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        context = dg.build_run_status_sensor_context(
            "alerts", result.get_run_failure_event(), instance, result.dagster_run
        )
        told = build_alert(context.for_run_failure())
    assert (told.job, told.stream) == ("recover_stream", "clicks")
    assert error in told.error
    assert told.hint == hint
