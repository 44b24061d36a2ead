"""The leader of Dagster's processes: starts code servers, web server and daemon, and starts again what ended.

`holdfast up` starts it detached, in a session of its own. A web server or daemon that dies does not end the runs at
work: those belong to the code servers. A code server is a process behind a proxy; Dagster's own manager watches the
proxy only.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import yaml
from dagster import DagsterInstance
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._grpc.client import DagsterGrpcClient
from dagster._utils.log import configure_loggers

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.services import RestartPolicy
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.private import keep_private

LOG_LEVEL = "warning"
LOOK_SECONDS = 1.0
STOP_SECONDS = 10.0
PING_SECONDS = 5.0
ANSWER_SECONDS = (
    10  # a busy code server answers late; one that hangs would keep Dagster's default of a minute
)
UNANSWERED_PINGS = 3
RELOAD_SECONDS = 120

log = logging.getLogger("dagster.holdfast.supervisor")


class Running(Protocol):
    """A process that was started: `subprocess.Popen`, as far as it is needed here."""

    def poll(self) -> int | None:
        """The exit code; `None` while it runs."""
        ...


class Member:
    """One process of the service; started again with growing pauses whenever it ends.

    A process whose very first start fails ends the service instead: `holdfast up` waits for it and shows why.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Running],
        *,
        policy: RestartPolicy,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._name, self._start = name, start
        self._policy, self._clock = policy, clock
        self._launches = self._ends_in_a_row = 0
        self._due_at: float | None = None
        self._launch()

    def keep_running(self) -> None:
        """Start the process again if it ended and its pause is over."""
        if self._due_at is not None:
            if self._clock.monotonic() >= self._due_at:
                self._launch()
            return
        code = self._process.poll()
        if code is not None:
            self._schedule(code, self._clock.monotonic() - self._launched_at)

    def _schedule(self, code: int, ran_seconds: float) -> None:
        if self._policy.is_failed_start(self._launches, ran_seconds=ran_seconds):
            raise PermanentError(
                f"the {self._name} ended with code {code} soon after its first start",
                hint="read logs/dagster.log in the home folder",
            )
        self._ends_in_a_row = self._policy.count(self._ends_in_a_row, ran_seconds=ran_seconds)
        pause = self._policy.pause(self._ends_in_a_row)
        log.error("the %s ended with code %s: starting it again in %.0f s", self._name, code, pause)
        self._due_at = self._clock.monotonic() + pause

    def _launch(self) -> None:
        self._due_at = None
        self._launches += 1
        self._launched_at = self._clock.monotonic()
        self._process = self._start()


class CodeClient(Protocol):
    """A connection to a code server: `DagsterGrpcClient`, as far as it is needed here."""

    def get_server_id(self, timeout: int) -> object:
        """Ask the code server, through its proxy: the ping of Dagster's client has no timeout of its own."""
        ...

    def reload_code(self, timeout: int) -> object:
        """Let the proxy start another code server."""
        ...


class CodeServer:
    """One code server, started again when it answers no more: without it no sensor ticks, and nothing is recovered."""

    def __init__(self, name: str, client: CodeClient) -> None:
        self._name, self._client = name, client
        self._unanswered = 0

    def keep_answering(self) -> None:
        """Ping the code server; after several pings in a row without an answer, start it again."""
        try:
            self._client.get_server_id(ANSWER_SECONDS)
        except DagsterUserCodeUnreachableError:
            self._unanswered += 1
        else:
            self._unanswered = 0
        if self._unanswered == UNANSWERED_PINGS:
            log.error("the code server of %s does not answer: starting it again", self._name)
            self._unanswered = 0
            with suppress(DagsterUserCodeUnreachableError):  # the old one cannot be asked to end
                self._client.reload_code(RELOAD_SECONDS)


def watch_code_servers(workspace: Path, stop: threading.Event) -> None:
    """Keep the code servers of a workspace file answering until `stop` is set."""
    specs = [entry["grpc_server"] for entry in yaml.safe_load(workspace.read_text())["load_from"]]
    servers = [
        CodeServer(
            spec["location_name"],
            DagsterGrpcClient(
                port=spec.get("port"),
                socket=spec.get("socket"),
                host=spec.get("host", "localhost"),
            ),
        )
        for spec in specs
    ]
    while not stop.wait(PING_SECONDS):
        for server in servers:
            server.keep_answering()


def supervise(commands: dict[str, Sequence[str]], stop: threading.Event) -> None:
    """Keep the commands running until `stop` is set, then end them."""
    started: list[subprocess.Popen[bytes]] = []

    def starter(command: Sequence[str]) -> Callable[[], Running]:
        def start() -> Running:
            process = subprocess.Popen(command)  # noqa: S603 - commands are our own
            started[:] = [*(other for other in started if other.poll() is None), process]
            return process

        return start

    policy = RestartPolicy()
    try:
        members = [Member(name, starter(line), policy=policy) for name, line in commands.items()]
        while not stop.wait(LOOK_SECONDS):
            for member in members:
                member.keep_running()
    finally:
        _end(started)


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.send_signal(signal.SIGINT)
    deadline = SYSTEM_CLOCK.monotonic() + STOP_SECONDS
    for process in running:
        try:
            process.wait(max(0.1, deadline - SYSTEM_CLOCK.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def serving_code(workspace: Path) -> Iterator[Path]:
    """Start one code server per location of the workspace; yields a workspace file that names the servers."""
    with (
        DagsterInstance.get() as instance,
        ProxyServerManager(
            instance, WorkspaceFileTarget([str(workspace)]), code_server_log_level=LOG_LEVEL
        ) as servers,
        tempfile.TemporaryDirectory() as folder,
    ):
        file = Path(folder) / "workspace.yaml"
        file.write_text(yaml.safe_dump({"load_from": servers.get_code_server_specs()}))
        yield file


def build_commands(
    served: Path, *, home: Path, host: str, port: int, names: Sequence[str]
) -> dict[str, Sequence[str]]:
    python, web = sys.executable, "holdfast.orchestration.services.web"
    address = ["--home", str(home), "--host", host, "--port", str(port)]
    levels = ["--log-level", LOG_LEVEL, "--code-server-log-level", LOG_LEVEL]
    where = ["--workspace", str(served)]
    return {
        "web server": [python, "-m", web, *address, *where, *(f"--name={name}" for name in names)],
        "daemon": [python, "-m", "dagster._daemon", "run", *levels, *where],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    keep_private()
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", dest="names", action="append", default=[])
    options = vars(parser.parse_args(arguments))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    configure_loggers(log_level=LOG_LEVEL.upper())
    # What `dagster dev` tells its processes.
    os.environ.update({"DAGSTER_IS_DEV_CLI": "1", "DAGSTER_verbose": ""})
    with serving_code(options.pop("workspace")) as served:
        watch = threading.Thread(target=watch_code_servers, args=(served, stop), daemon=True)
        watch.start()
        supervise(build_commands(served, **options), stop)


if __name__ == "__main__":
    main()
