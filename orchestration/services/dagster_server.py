"""Dagster as a detached service of a project: UI, daemon and code server, found again by anyone.

`dagster dev` runs them as one family in one session. A file in `<home>/run` keeps the leader's
process id and birth time, so that a second `holdfast up` adopts it and `holdfast down` ends it.
"""

import fcntl
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from configs.project import PROJECT_VARIABLE, Project
from ft_policies.errors import PermanentError, TransientError
from orchestration.services.dagster_health import DagsterHealth, ask
from orchestration.services.dagster_home import prepare, workspace
from orchestration.services.session_processes import ServiceSession
from resources.clock import SYSTEM_CLOCK
from resources.launcher import Launched, last_words, launch

START_SECONDS = 180.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDagster:
    """A Dagster that was started: its leader, and where its UI is."""

    pid: int
    started_at: float
    host: str
    port: int

    @property
    def url(self) -> str:
        """The address of the UI."""
        return f"http://{self.host}:{self.port}"

    @property
    def process(self) -> Launched:
        """The leader."""
        return Launched(self.pid, self.started_at)


class DagsterServer:
    """The Dagster of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._home = project.home / "dagster"
        self._kept = project.home / "run" / "dagster.json"
        self.log = project.home / "logs" / "dagster.log"

    def find(self) -> RunningDagster | None:
        """The Dagster that runs now, if one does."""
        known = self._read()
        return known if known is not None and known.process.is_alive() else None

    def ensure(
        self,
        *,
        port: int | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> RunningDagster:
        """Start Dagster unless it runs, and wait until all of it is well."""
        with self._locked():
            running = self.find()
            adopted = running is not None
            if running is None:
                self._forget_the_last()
                running = self._launch(port or self._project.deployment.dagster.port)
        try:
            self._await(running, tell)
        except PermanentError:
            if not adopted:
                self.stop()
            raise
        return running

    def stop(self) -> bool:
        """End Dagster with all its processes; whether there was one."""
        if not self._kept.exists():
            return False
        with self._locked():
            was_there = self._end_leftovers()
            self._kept.unlink(missing_ok=True)
        return was_there

    def processes(self) -> list[int]:
        """The process ids of all that belongs to it now."""
        known = self._read()
        return [] if known is None else [p.pid for p in self._session(known).members()]

    def _launch(self, port: int) -> RunningDagster:
        host = self._project.deployment.dagster.host
        _demand_free(host, port)
        prepare(self._home)
        options = ["--host", host, "--port", str(port), "--log-level", "warning"]
        started = launch(
            [
                sys.executable,
                "-m",
                "dagster",
                "dev",
                "-w",
                str(workspace(self._project.root, self._home)),
                *options,
            ],
            folder=self._project.root,
            output=self.log,
            environment=self._environment(),
        )
        running = RunningDagster(
            pid=started.pid, started_at=started.started_at, host=host, port=port
        )
        self._write(running)
        return running

    def _await(self, running: RunningDagster, tell: Callable[[str], None]) -> None:
        deadline = SYSTEM_CLOCK.monotonic() + START_SECONDS
        health = DagsterHealth(answers=False)
        while not health.ready:
            if not running.process.is_alive():
                raise PermanentError(
                    f"Dagster ended while it started: {last_words(self.log)}",
                    hint=f"read {self.log}",
                )
            if health.broken:
                raise PermanentError(
                    f"Dagster cannot load the project: {health.broken}",
                    hint=f"read {self.log}; once it is mended, `holdfast down` and `holdfast up`",
                )
            if SYSTEM_CLOCK.monotonic() > deadline:
                raise TransientError(
                    f"Dagster is not ready after {START_SECONDS:.0f} s: it waits for "
                    f"{', '.join(health.waits_for)}",
                    hint=f"read {self.log}, or run `holdfast up` again to go on waiting",
                )
            SYSTEM_CLOCK.sleep(LOOK_SECONDS)
            health = ask(running.url)
            tell(", ".join(health.waits_for))

    def _environment(self) -> dict[str, str]:
        return {"DAGSTER_HOME": str(self._home), PROJECT_VARIABLE: str(self._project.root)}

    def _session(self, known: RunningDagster) -> ServiceSession:
        return ServiceSession(known.process, {"DAGSTER_HOME": str(self._home)})

    def _forget_the_last(self) -> None:
        """See to it that nothing is left of the one before, neither processes nor runs that look alive."""
        self._end_leftovers()
        if self._home.exists():
            from orchestration.services.forgotten_runs import end_forgotten_runs  # Dagster is slow

            end_forgotten_runs(self._home)

    def _end_leftovers(self) -> bool:
        """End what is left of the one that was started last, even if its leader was killed."""
        known = self._read()
        if known is None:
            return False
        session = self._session(known)
        if not session.members():
            return False
        if not session.end(patience_seconds=STOP_SECONDS):
            raise TransientError(
                f"processes of Dagster do not end: {[p.pid for p in session.members()]}",
                hint="they may wait for a disk; run `holdfast down` again",
            )
        return True

    def _read(self) -> RunningDagster | None:
        try:
            return RunningDagster(**json.loads(self._kept.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise PermanentError(
                f"{self._kept} is not readable: {error}",
                hint="end `dagster dev` of this project by hand and remove the file",
            ) from error

    def _write(self, running: RunningDagster) -> None:
        beside = self._kept.with_suffix(".json.new")
        beside.write_text(json.dumps(asdict(running)))
        beside.replace(self._kept)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        with (self._kept.parent / "dagster.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _demand_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PermanentError(
                f"port {port} of {host} is taken: {error.strerror}",
                hint="`holdfast up --port N`, or set dagster.port in configs/holdfast.yaml",
            ) from error
