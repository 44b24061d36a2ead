"""The real web server: Dagster's UI for the one who has the token, and for no other."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from holdfast.orchestration.services.access import ensure_token
from holdfast.orchestration.services.dagster import prepare_home
from holdfast.resources.service import find_free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

WORKSPACE = "load_from:\n  - python_file: {relative_path: small.py, location_name: small}\n"
DEFINITIONS = "import dagster as dg\n\ndefs = dg.Definitions(assets=[])\n"
MUTATION = "mutation { setNuxSeen }"
START_SECONDS = 90.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True)
class Web:
    """A client that sends exactly the headers it is given."""

    port: int
    token: str

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def cookie(self) -> dict[str, str]:
        return {"Cookie": f"holdfast_{self.port}={self.token}"}

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, fields, answer.read().decode())
        finally:
            connection.close()

    def post(self, query: str, **headers: str) -> Answer:
        body = json.dumps({"query": query})
        return self.ask("POST", "/graphql", body, **{"Content-Type": "application/json"}, **headers)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """The server in a process of its own, with little to load."""
    home = tmp_path_factory.mktemp("home")
    (home / "workspace.yaml").write_text(WORKSPACE)
    (home / "small.py").write_text(DEFINITIONS)
    prepare_home(home / "dagster")
    client = Web(find_free_port(), ensure_token(home, None))
    options = ["--home", str(home), "--workspace", str(home / "workspace.yaml")]
    module = "holdfast.orchestration.services.web"
    process = subprocess.Popen(
        [sys.executable, "-m", module, *options, "--host=127.0.0.1", f"--port={client.port}"],
        env={**_environment(), "DAGSTER_HOME": str(home / "dagster")},
    )
    try:
        _await_answer(client, process)
        yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def _await_answer(client: Web, process: "subprocess.Popen[bytes]") -> None:
    def answers() -> bool:
        assert process.poll() is None
        try:
            client.ask("GET", "/server_info")
        except OSError:
            return False
        return True

    wait_until(
        answers,
        within_seconds=START_SECONDS,
        every_seconds=0.2,
        story=lambda: "the web server does not answer",
    )


def test_a_browser_signs_in_once_and_then_sees_the_ui(web: Web) -> None:
    signed_in = web.ask("GET", f"/runs?token={web.token}&status=failed")
    cookie = signed_in.headers["set-cookie"]

    assert signed_in.status == 200
    assert "url=/runs?status=failed" in signed_in.text
    assert web.token not in signed_in.text
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    page = web.ask("GET", "/runs", Cookie=cookie.partition(";")[0])
    assert page.status == 200
    assert "<html" in page.text


def test_a_page_of_the_ui_and_a_script_may_run_mutations(web: Web) -> None:
    from_page = web.post(MUTATION, Origin=f"http://{web.address}", **web.cookie)
    from_script = web.post(MUTATION, **web.bearer)

    assert json.loads(from_page.text)["data"] == {"setNuxSeen": True}
    assert json.loads(from_script.text)["data"] == {"setNuxSeen": True}


def test_mutations_by_get_are_refused(web: Web) -> None:
    by_get = web.ask("GET", "/graphql?query=mutation%7BsetNuxSeen%7D", **web.bearer)
    by_form = web.ask("POST", "/graphql?query=mutation%7BsetNuxSeen%7D", **web.bearer)

    assert (by_get.status, by_form.status) == (403, 403)


def test_a_foreign_name_or_page_is_refused(web: Web) -> None:
    foreign_host = web.post(MUTATION, Host=f"attacker.example:{web.port}", **web.bearer)
    foreign_page = web.post(MUTATION, Origin="http://attacker.example", **web.cookie)
    other_port = web.post(MUTATION, Origin="http://127.0.0.1:1", **web.cookie)

    assert [foreign_host.status, foreign_page.status, other_port.status] == [403, 403, 403]


def test_without_the_token_neither_ui_nor_graphql_is_served(web: Web) -> None:
    answers = [
        web.ask("GET", "/"),
        web.ask("GET", "/server_info"),
        web.ask("GET", "/?token=wrong"),
        web.post(MUTATION),
        web.post(MUTATION, Authorization="Bearer wrong"),
    ]

    assert [answer.status for answer in answers] == [401] * 5
    assert "holdfast open" in answers[0].text


def test_subscriptions_need_the_token_and_a_page_of_the_ui(web: Web) -> None:
    address = f"ws://{web.address}/graphql"
    own = f"http://{web.address}"
    for headers, origin in (({}, own), (web.cookie, "http://attacker.example"), (web.cookie, None)):
        with pytest.raises(InvalidStatus) as refused:
            connect(address, additional_headers=headers, origin=origin)  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403

    with connect(
        address,
        additional_headers=web.cookie,
        origin=own,  # type: ignore[arg-type]
        subprotocols=["graphql-ws"],  # type: ignore[list-item]
    ) as subscription:
        subscription.send(json.dumps({"type": "connection_init"}))
        assert json.loads(subscription.recv(timeout=10)) == {"type": "connection_ack"}
