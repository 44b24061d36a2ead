"""Each event that needs an operator is reported once to each receiver, by a real server that answers or does not."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import dagster as dg
import pytest

from holdfast.configs.declarations.deployment import Function, Log, NotifyTarget, Webhook
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.orchestration.jobs.base import STREAM_TAG
from holdfast.orchestration.sensors.alerts import build_alert, name_target, notify_target
from holdfast.resources.alert_queue import AlertDelivery, AlertQueue, QueuedAlert
from holdfast.resources.notifiers import TRIES, Alert, WebhookNotifier
from tests.fakes.clocks import SteppedClock
from tests.waiting import wait_until

ALERT = Alert(job="recover_stream", run="r1", stream="clicks", error="no room", hint="make some")

GARBAGE = 0


@dataclass
class Chat:
    """A server that keeps what it receives; `answers` are its next status codes."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    heard: list[dict[str, Any]] = field(default_factory=list)


received: list[dict[str, str]] = []


def remember(alert: dict[str, str]) -> None:
    received.append(alert)


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
def test_a_url_that_is_none_is_reported_without_it(url: str) -> None:
    with pytest.raises(PermanentError, match="URL is not valid") as refused:
        WebhookNotifier(url, SteppedClock()).notify(ALERT)
    assert "s3" not in str(refused.value)


def test_a_function_of_the_users_own_is_called_with_the_facts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received.clear()
    names = ["stammer", "remember"]
    targets = [Function(function=f"{__name__}:{name}") for name in names]
    left = delivered(ALERT, *targets, Function(function="no_such_module_here:tell"))
    assert received == [{"text": ALERT.text, **asdict(ALERT)}]
    assert f"{__name__}:stammer raised ValueError: oh" in caplog.text
    assert "no_such_module_here:tell: cannot load no_such_module_here:tell" in caplog.text
    assert [len(queue.alerts) for queue in left.values()] == [1, 0, 1]


def delivered(alert: Alert, *targets: NotifyTarget) -> dict[str, AlertQueue]:
    """What is left after an alert was sent to all of them."""
    receivers = {name_target(target): partial(notify_target, target) for target in targets}
    queue = AlertQueue(alerts=(QueuedAlert(**asdict(alert)),))
    return AlertDelivery().deliver(dict.fromkeys(receivers, queue), receivers, at=1000.0)


def test_a_receiver_that_cannot_be_reached_gets_the_alert_later_and_the_others_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    targets = [Webhook(url_env="NOT_SET"), Webhook(url_env="CHAT"), Log()]
    with a_chat() as chat, caplog.at_level(logging.WARNING):
        monkeypatch.setenv("CHAT", chat.url)
        left = delivered(ALERT, *targets)
        assert len(chat.heard) == 1
        assert "no alert was sent to webhook NOT_SET: the environment variable" in caplog.text
        assert ALERT.text in caplog.text
        monkeypatch.setenv("NOT_SET", chat.url)
        queue = left["webhook NOT_SET"]
        receivers = {"webhook NOT_SET": partial(notify_target, targets[0])}
        early = AlertDelivery().deliver({"webhook NOT_SET": queue}, receivers, at=1001.0)
        assert early["webhook NOT_SET"] == queue
        late = AlertDelivery().deliver({"webhook NOT_SET": queue}, receivers, at=queue.retry_at)
    assert late["webhook NOT_SET"].alerts == ()
    assert len(chat.heard) == 2


def test_a_receiver_that_hangs_holds_up_no_other_and_is_not_called_again_meanwhile() -> None:
    release, calls, heard = threading.Event(), [0], list[Alert]()

    def hang(_: Alert) -> None:
        calls[0] += 1
        release.wait()

    delivery, queue = AlertDelivery(), AlertQueue(alerts=(QueuedAlert(**asdict(ALERT)),))
    queues, receivers = {"hung": queue, "other": queue}, {"hung": hang, "other": heard.append}
    for number in range(3):
        at = 1e6 * number
        left = delivery.deliver(queues, receivers, at=at, within_seconds=0.05)
    release.set()
    assert calls == [1]
    assert len(heard) == 3
    assert left["hung"].alerts == queue.alerts


def test_a_slow_receiver_gets_each_alert_once() -> None:
    release, heard = threading.Event(), list[str]()

    def dawdle(alert: Alert) -> None:
        release.wait()
        heard.append(alert.key)

    alerts = [QueuedAlert(**{**asdict(ALERT), "key": key}) for key in "abc"]
    delivery, receivers = AlertDelivery(), {"slow": dawdle}
    queues = {"slow": AlertQueue(alerts=tuple(alerts))}
    queues = delivery.deliver(queues, receivers, at=0.0, within_seconds=0.02)
    assert len(queues["slow"].alerts) == 3, "none was delivered yet"
    release.set()
    wait_until(lambda: not delivery._sendings["slow"].is_busy)
    assert heard == ["a"], "after the deadline no other is begun"
    queues = delivery.deliver(queues, receivers, at=1e6)
    assert heard == ["a", "b", "c"]
    assert queues["slow"].alerts == ()


@pytest.mark.parametrize(
    ("at", "due"), [(1000.0, True), (999.0, False), (401.0, False), (399.0, True)]
)
def test_a_clock_that_was_set_back_does_not_hold_up_an_alert(at: float, *, due: bool) -> None:
    queue = AlertQueue(alerts=(QueuedAlert(**asdict(ALERT)),), retry_at=1000.0)
    left = AlertDelivery().deliver({"log": queue}, {"log": lambda _: None}, at=at)
    assert (left["log"].alerts == ()) is due


@dg.op
def explain() -> None:
    raise dg.Failure("no room", metadata={"hint": "make some"}, allow_retries=False)


@dg.op
def stumble() -> None:
    raise ValueError("oh")


@pytest.mark.parametrize(
    ("op", "error", "hint"), [(explain, "no room", "make some"), (stumble, "ValueError: oh", "")]
)
def test_a_failed_run_is_reported_in_its_own_words(
    op: dg.OpDefinition, error: str, hint: str
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        job = dg.GraphDefinition(name="recover_stream", node_defs=[op]).to_job(
            tags={STREAM_TAG: "clicks"}
        )
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        built = build_alert(instance, result.dagster_run)
    assert (built.job, built.stream) == ("recover_stream", "clicks")
    assert error in built.error
    assert built.hint == hint
