"""Dagster as a detached service of a project: UI, daemon and code server.

The supervisor runs them as one family in one session. The record in `<home>/run` lets a second
`holdfast up` adopt the service and `holdfast down` stop it. Dagster works in `<home>/dagster`, where its
settings are written once; afterwards they are the operator's.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode

from holdfast.configs.project import PROJECT_VARIABLE, ProjectConfig
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.orchestration.services.access import ensure_token, read_token
from holdfast.orchestration.services.dagster_health import DagsterHealth, ask_health
from holdfast.resources.private import write_private
from holdfast.resources.process import ProcessHandle, launch, log_tail
from holdfast.resources.service import (
    ServiceRecordFile,
    ServiceSession,
    Startup,
    await_healthy,
    find_bind_error,
)

SUPERVISOR = "holdfast.orchestration.services.supervisor"
REACHED_AS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - every address has the loopback
START_SECONDS = 180.0
STOP_SECONDS = 20.0
SHORTEST_TOKEN = 16
LOOK_SECONDS = 0.3
INTERRUPTED = (
    "the run was interrupted: Dagster ended. A new run observes the stream and finishes the work"
)
SETTINGS = """\
# Written by `holdfast up`. Edit it as needed: an edited file is not overwritten.
telemetry:
  enabled: false
nux:                       # do not ask for an e-mail address in the UI
  enabled: false
run_monitoring:            # a run whose process died must not be shown as running
  enabled: true
  start_timeout_seconds: 180
  poll_interval_seconds: 30
run_queue:
  dequeue_interval_seconds: 1  # a recovery would wait for Dagster's default of 5
  dequeue_use_threads: true    # side by side: each recovery would wait until those before it run
concurrency:
  runs:
    max_concurrent_runs: -1  # a recovery never waits for other runs
    tag_concurrency_limits:  # of all others, this many run at once
      - {key: holdfast/queue, value: limited, limit: 4}
sensors:
  use_threads: true        # side by side: a slow sensor does not delay a recovery
retention:                 # sensors tick every few seconds, and a failed tick has a traceback: drop both early
  sensor:
    purge_after_days: {skipped: 1, success: 14, failure: 3, started: 7}
  schedule:
    purge_after_days: {skipped: 7, success: 30, failure: 30, started: 7}
"""
# Settings that an older version wrote, and that were not edited since.
REPLACED_SETTINGS = {
    "57972c2bba2bfc58a043ba74d9a56d8c63c936a6262f5e2264c8e906398f28d2",
    "7092511f5b24e50270b8099b19b715e3f3356a51b160bd474fa1dadfc05d196d",
    "b2bcc485461e972f1a453a22757583fd17ab57814a0099288b4f03b3bb56cbaf",
}

WORKSPACE = """\
load_from:
  - python_module:
      module_name: holdfast.orchestration.definitions
      location_name: holdfast
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDagster:
    """A Dagster that was started: its leading process, and the address of its UI."""

    pid: int
    started_at: float
    host: str
    port: int

    @property
    def url(self) -> str:
        host = REACHED_AS.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def process(self) -> ProcessHandle:
        return ProcessHandle(self.pid, self.started_at)


class DagsterServer:
    def __init__(self, project: ProjectConfig) -> None:
        self._project = project
        self._home = project.home / "dagster"
        self._record = ServiceRecordFile(
            path=project.home / "run" / "dagster.json",
            lock=project.home / "run" / "dagster.lock",
            parse=lambda fields: RunningDagster(**fields),
            damaged_hint="end `holdfast.orchestration.services.supervisor` of this project by hand, then remove the file",
        )
        self.log = project.home / "logs" / "dagster.log"

    def find(self) -> RunningDagster | None:
        """Find the Dagster that runs now."""
        return self._record.find_running()

    @property
    def token(self) -> str:
        """What a client of the web server has to send."""
        return read_token(self._project.home)

    def sign_in_url(self, running: RunningDagster) -> str:
        """The address that signs a browser in."""
        return f"{running.url}/?{urlencode({'token': self.token})}"

    def write_sign_in_page(self, running: RunningDagster) -> Path:
        """Write a file that takes a browser to that address; only its owner can read it."""
        page = self._project.home / "run" / "open.html"
        write_private(
            page, f'<meta http-equiv="refresh" content="0;url={self.sign_in_url(running)}">\n'
        )
        return page

    def ensure(
        self,
        *,
        port: int | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> RunningDagster:
        """Start Dagster unless it runs, and wait until UI, code and daemons are healthy.

        A Dagster that was started here and cannot load the project is stopped again; an adopted one is not.
        `report` gets what it still waits for.
        """
        with self._record.hold_lock():
            running = self.find()
            adopted = running is not None
            if running is None:
                self._clear_last()
                running = self._launch(port or self._project.deployment.dagster.port)
        try:
            self._await_ready(running, report)
        except PermanentError:
            if not adopted:
                self.stop()
            raise
        return running

    def stop(self) -> bool:
        """End Dagster with all its processes; return whether any was running."""
        if not self._record.path.exists():
            return False
        with self._record.hold_lock():
            was_running = self._stop_session()
            self._record.remove()
        return was_running

    def processes(self) -> list[int]:
        """The process ids of its session."""
        last = self._record.read()
        return [] if last is None else [process.pid for process in self._session(last).members()]

    def _launch(self, port: int) -> RunningDagster:
        declared = self._project.deployment.dagster
        host = declared.host
        _require_free(host, port)
        prepare_home(self._home)
        workspace = find_workspace(self._project.root, self._home)
        ensure_token(self._project.home, _chosen_token(declared.token_env))
        where = ["--home", str(self._project.home), "--workspace", str(workspace)]
        address = ["--host", host, "--port", str(port)]
        names = [f"--name={name}" for name in declared.allowed_hosts]
        process = launch(
            [sys.executable, "-m", SUPERVISOR, *where, *address, *names],
            folder=self._project.root,
            output=self.log,
            environment={
                "DAGSTER_HOME": str(self._home),
                PROJECT_VARIABLE: str(self._project.root),
            },
        )
        running = RunningDagster(
            pid=process.pid, started_at=process.started_at, host=host, port=port
        )
        self._record.write(running)
        return running

    def _await_ready(self, running: RunningDagster, report: Callable[[str], None]) -> None:
        health = DagsterHealth(answers=False)

        def is_ready() -> bool:
            nonlocal health
            health = ask_health(running.url, self.token)
            report(", ".join(health.waits_for))
            if health.broken:
                raise PermanentError(
                    f"Dagster cannot load the project: {health.broken}",
                    hint=f"read {self.log} and fix the cause, then run `holdfast down` and `holdfast up`",
                )
            return health.ready

        match await_healthy(
            running.process, is_ready, seconds=START_SECONDS, poll_seconds=LOOK_SECONDS
        ):
            case Startup.HEALTHY:
                return
            case Startup.ENDED:
                raise PermanentError(
                    f"Dagster ended while it started: {log_tail(self.log)}",
                    hint=f"read {self.log}",
                )
            case Startup.TIMED_OUT:
                raise TransientError(
                    f"Dagster is not ready after {START_SECONDS:.0f} s: it still waits for "
                    f"{', '.join(health.waits_for)}",
                    hint=f"read {self.log}, or run `holdfast up` again to wait longer",
                )

    def _session(self, last: RunningDagster) -> ServiceSession:
        return ServiceSession(last.process, {"DAGSTER_HOME": str(self._home)})

    def _clear_last(self) -> None:
        """End the processes of the last Dagster, and fail the runs that it left marked as running."""
        self._stop_session()
        if self._home.exists():
            fail_interrupted_runs(self._home)

    def _stop_session(self) -> bool:
        """End all processes of the last Dagster, even if its leader was killed; return whether any was running."""
        last = self._record.read()
        if last is None:
            return False
        session = self._session(last)
        if not session.members():
            return False
        if not session.stop(leader_seconds=STOP_SECONDS):
            raise TransientError(
                f"processes of Dagster did not end within {STOP_SECONDS:.0f} s: {[p.pid for p in session.members()]}",
                hint="run `holdfast down` again: they may wait for a disk",
            )
        return True


def prepare_home(folder: Path) -> None:
    """Create the folder that Dagster works in, with settings for a supervisor; edited ones stay."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "dagster.yaml"
    if settings.exists() and sha256(settings.read_bytes()).hexdigest() in REPLACED_SETTINGS:
        settings.unlink()
    _write_once(settings, SETTINGS)


def find_workspace(root: Path, folder: Path) -> Path:
    """Find the workspace file of the project; without one, write one that loads the installed Holdfast."""
    own = root / "workspace.yaml"
    if own.exists():
        return own
    fallback = folder / "workspace.yaml"
    _write_once(fallback, WORKSPACE)
    return fallback


def fail_interrupted_runs(home: Path) -> int:
    """Fail all runs that were at work when Dagster was killed; return how many. Call it while no Dagster runs.

    Dagster goes on counting them, and its queue limits the runs at work, so a few of them would make every
    recovery wait.
    """
    import dagster as dg  # takes a second to import

    status = dg.DagsterRunStatus
    at_work = [status.STARTING, status.STARTED, status.CANCELING]
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = instance.get_runs(dg.RunsFilter(statuses=at_work))
        for run in runs:
            instance.report_run_failed(run, INTERRUPTED)
    return len(runs)


def _chosen_token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "")
    if len(token) < SHORTEST_TOKEN:
        raise PermanentError(
            f"the environment variable {variable} has no token of {SHORTEST_TOKEN} characters or more",
            hint=f"set {variable}: dagster.token_env in configs/holdfast.yaml names it",
        )
    return token


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text, encoding="utf-8")


def _require_free(host: str, port: int) -> None:
    error = find_bind_error(host, port)
    if error is not None:
        raise PermanentError(
            f"port {port} of {host} is taken: {error.strerror}",
            hint="run `holdfast up --port N`, or set dagster.port in configs/holdfast.yaml",
        ) from error
