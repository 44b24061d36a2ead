"""How each kind of fault of a soak is injected and ends; which streams have to go on after it."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil

from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.jobs.maintenance import PruneConfig, prune_snapshots
from holdfast.resources.control_store.records import ReplicaRow
from tests.chaos.faults import is_alive
from tests.chaos.soak_plan import Injection
from tests.chaos.soak_project import PATIENCE_SECONDS, SoakProject, SoakStream, read_with_retries
from tests.live.faults import POINTS, arm, disarm
from tests.live.postgres import (
    cut_connections,
    list_server_processes,
    restart_server,
    set_read_only,
    shift_server_clock,
)
from tests.live.stepped_clock import FILE as CLOCK_FILE, set_clock

POINT_SECONDS = 30.0
COMMAND_SECONDS = 420.0
AHEAD = (60.0, 600.0, 3600.0)
BACK = (-3.0, -30.0, -3600.0)
LEADER = "services.supervisor"
MOST_EPOCHS_BACK = 20
DOCUMENTED = {"doctor": (0, 1, 3, 4)}
Value = TypeVar("Value")


class NotApplicableError(Exception):
    """There is nothing to inject the fault into at this moment."""


class Injector:
    """Injects faults into a project. Each method returns once the fault is over, with what it did."""

    def __init__(self, soak: SoakProject) -> None:
        self._soak = soak
        self._memory_megabytes = 1024

    def inject(self, injection: Injection, stream: SoakStream) -> str:
        """Inject a fault of any kind, and heal it."""
        act = getattr(self, f"_{injection.kind.name.replace('-', '_')}")
        try:
            return str(act(injection, stream))
        except (psutil.NoSuchProcess, ProcessLookupError) as error:
            # a process that has ended by itself before the fault comes cannot have it
            raise NotApplicableError from error

    # drivers

    def _kill_python(self, _: Injection, stream: SoakStream) -> str:
        return f"{stream.hit(self._primary(stream)).id}"

    def _kill_java(self, _: Injection, stream: SoakStream) -> str:
        row = self._primary(stream)
        _find_java(row).kill()
        return f"of {row.id}"

    def _kill_at_point(self, injection: Injection, stream: SoakStream) -> str:
        row, point = self._primary(stream), _choose(POINTS, injection)
        arm(stream.root, point, read_with_retries(stream.epoch), replica=row.id)
        deadline = time.monotonic() + POINT_SECONDS
        while is_alive(row) and time.monotonic() < deadline:
            time.sleep(0.1)
        disarm(stream.root, row.id)
        if is_alive(row):
            raise NotApplicableError  # it did not come to the point: another fault is in the way
        return f"{row.id} {point}"

    def _kill_secondary(self, _: Injection, stream: SoakStream) -> str:
        row = read_with_retries(stream.look).secondary
        if row is None or not is_alive(row):
            raise NotApplicableError
        return f"{stream.hit(row).id}"

    def _kill_both(self, _: Injection, stream: SoakStream) -> str:
        status = read_with_retries(stream.look)
        rows = [row for row in (status.primary, status.secondary) if row and is_alive(row)]
        if not rows:
            raise NotApplicableError
        for row in rows:
            with suppress(ProcessLookupError):
                stream.hit(row)
        return " and ".join(row.id for row in rows)

    def _pause_python(self, injection: Injection, stream: SoakStream) -> str:
        row = self._primary(stream)
        assert row.pid is not None
        with paused([psutil.Process(row.pid)]):
            self._wait(injection)
        return f"{row.id} for {injection.seconds:.0f} s"

    def _pause_java(self, injection: Injection, stream: SoakStream) -> str:
        row = self._primary(stream)
        with paused([_find_java(row)]):
            self._wait(injection)
        return f"of {row.id} for {injection.seconds:.0f} s"

    def _corrupt_snapshot(self, _: Injection, stream: SoakStream) -> str:
        """The newest snapshot loses its end after the drivers that might need it are killed."""
        newest = read_with_retries(lambda: self._soak.project.store.snapshots.newest(stream.name))
        if newest is None:
            raise NotApplicableError
        killed = self._kill_both(_, stream)
        packs = self._soak.home / "objects" / "holdfast" / stream.name / "packs"
        for pack in packs.glob(f"{newest.id}*.pack"):
            os.truncate(pack, max(pack.stat().st_size - 7, 0))
        return f"{newest.id}, {killed}"

    # files

    def _edited_yaml(self, injection: Injection, stream: SoakStream) -> str:
        """While one file has a mistake, all streams go on."""
        with stream.editing:
            right = stream.file.read_text()
            wrong = _choose(
                (
                    right.replace('"tier"', '"teir"'),
                    right[: len(right) // 2],
                    right.replace('"kind"', '"sort"'),
                ),
                injection,
            )
            stream.edit(wrong)
            try:
                self._wait(injection)
                for each in self._soak.streams.values():
                    each.await_new_epochs()
            finally:
                stream.edit(right)
        return f"of {stream.name} for {injection.seconds:.0f} s"

    def _missing_input(self, injection: Injection, stream: SoakStream) -> str:
        folder = stream.root / "input"
        away = folder.with_name("input.away")
        folder.rename(away)
        try:
            self._wait(injection)
        finally:
            away.rename(folder)
        return f"of {stream.name} for {injection.seconds:.0f} s"

    def _full_disk(self, injection: Injection, stream: SoakStream) -> str:
        assert self._soak.small_disk is not None
        filler = self._soak.small_disk / "filler"
        with filler.open("wb", buffering=0) as filling, suppress(OSError):
            while True:
                filling.write(bytes(65536))
        try:
            self._wait(injection)
        finally:
            filler.unlink()
        return f"below the table of {stream.name} for {injection.seconds:.0f} s"

    # services

    def _pause_s3(self, injection: Injection, _: SoakStream) -> str:
        with paused([self._find_s3()]):
            self._wait(injection)
        return f"for {injection.seconds:.0f} s"

    def _kill_s3(self, _injection: Injection, _: SoakStream) -> str:
        self._find_s3().kill()
        return ""

    def _kill_dagster(self, injection: Injection, _: SoakStream) -> str:
        self._soak.dagster.kill()
        self._wait(injection)
        self._soak.ensure_dagster()
        return f"for {injection.seconds:.0f} s"

    def _kill_dagster_process(self, injection: Injection, _: SoakStream) -> str:
        processes = [psutil.Process(pid) for pid in self._soak.dagster.processes()]
        # not the leader: it is the one that starts the others again
        others = [each for each in processes if not any(LEADER in word for word in each.cmdline())]
        victim = _choose(sorted(others, key=lambda each: each.pid), injection)
        name = " ".join(victim.cmdline()[1:4])
        victim.kill()
        return name

    # the control store

    def _pause_database(self, injection: Injection, _: SoakStream) -> str:
        """PostgreSQL is stopped; of SQLite the write lock is held by another program."""
        if self._is_postgresql:
            with paused(list_server_processes()):
                self._wait(injection)
        else:
            file = self._soak.home / "control.db"
            with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                self._wait(injection)
                other.execute("ROLLBACK")
        return f"for {injection.seconds:.0f} s"

    def _read_only_database(self, injection: Injection, _: SoakStream) -> str:
        set_read_only(self._url, on=True)
        cut_connections(self._url)
        try:
            self._wait(injection)
        finally:
            set_read_only(self._url, on=False)
            cut_connections(self._url)
        return f"for {injection.seconds:.0f} s"

    def _restart_database(self, _injection: Injection, _: SoakStream) -> str:
        restart_server()
        return ""

    def _clock_step(self, injection: Injection, _: SoakStream) -> str:
        """Ahead for good, or back for a while: sources by the clock then have nothing new until it is set right."""
        ahead = float((self._soak.root / CLOCK_FILE).read_text())
        step = _choose((*AHEAD, *BACK), injection)
        self._set_clock(ahead + step)
        if step < 0:
            try:
                self._wait(injection)
                for each in self._soak.streams.values():
                    each.await_new_epochs()
            finally:
                self._set_clock(ahead)
        return f"by {step:+.0f} s"

    def _set_clock(self, ahead_seconds: float) -> None:
        set_clock(self._soak.root, ahead_seconds)
        if self._is_postgresql:
            shift_server_clock(self._url, ahead_seconds)

    # the operator

    def _status(self, injection: Injection, stream: SoakStream) -> str:
        return self._command("status", *_choose(((), (stream.name,), ("--json",)), injection))

    def _doctor(self, injection: Injection, stream: SoakStream) -> str:
        return self._command("doctor", stream.name, *_choose(((), ("--deep",)), injection))

    def _snapshot(self, _: Injection, stream: SoakStream) -> str:
        return self._command("snapshot", stream.name)

    def _switch(self, injection: Injection, stream: SoakStream) -> str:
        return self._command("switch", stream.name, _choose(tuple(Tier), injection))

    def _migrate(self, injection: Injection, stream: SoakStream) -> str:
        protocol = _choose(("interruption_free", "replay", "legacy"), injection)
        with stream.editing:
            declaration = json.loads(stream.file.read_text())
            self._memory_megabytes += 1
            declaration["resources"]["driver_memory"] = f"{self._memory_megabytes}m"
            stream.edit(json.dumps(declaration))
            return self._command("migrate", stream.name, "--protocol", protocol)

    def _drill(self, injection: Injection, stream: SoakStream) -> str:
        fault = _choose(("kill", "pause", "cut_off"), injection)
        return self._command("drill", stream.name, "--fault", fault, "--seconds", "10", "--yes")

    def _compact(self, _: Injection, stream: SoakStream) -> str:
        return self._command("compact", stream.name)

    def _restore(self, injection: Injection, stream: SoakStream) -> str:
        outcome = self._command(*self._restore_words(injection, stream))
        self._finish_restore(stream)
        return outcome

    def _killed_restore(self, injection: Injection, stream: SoakStream) -> str:
        words = self._restore_words(injection, stream)
        with self._start(*words) as process:
            self._wait(injection)
            process.kill()
        self._finish_restore(stream)
        return f"{' '.join(words)} after {injection.seconds:.0f} s"

    @staticmethod
    def _restore_words(injection: Injection, stream: SoakStream) -> tuple[str, ...]:
        back = 1 + int(injection.draw * MOST_EPOCHS_BACK)
        epoch = max(0, read_with_retries(stream.epoch) - back)
        return "restore", stream.name, "--epoch", str(epoch), "--yes"

    def _finish_restore(self, stream: SoakStream) -> None:
        """What the documentation advises for a restore that was cut short: run the command again."""
        restores = self._soak.project.store.restores
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (restore := read_with_retries(lambda: restores.newest(stream.name))) is not None:
            if restore.finished:
                return
            assert time.monotonic() < deadline, f"{stream.name}: unfinished: {restore}"
            self._command("restore", stream.name, "--yes")

    def _killed_command(self, injection: Injection, stream: SoakStream) -> str:
        tier = _choose(tuple(Tier), injection)
        with self._start("switch", stream.name, tier) as process:
            self._wait(injection)
            process.kill()
        return f"switch {stream.name} {tier} after {injection.seconds:.0f} s"

    def _retention(self, _injection: Injection, _: SoakStream) -> str:
        try:
            self._soak.dagster.ask(prune_snapshots.name, prune=PruneConfig())
        except Exception as error:  # the client raises whatever its transport does
            raise NotApplicableError from error  # Dagster is not there to be asked
        return "asked of Dagster"

    def _command(self, *words: str) -> str:
        """Run a command to its end, which has to be a documented one; says how it ended."""
        with self._start(*words) as process:
            try:
                output, _ = process.communicate(timeout=COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(
                    f"{' '.join(words)}: no end in {COMMAND_SECONDS:.0f} s"
                ) from None
        outcome = f"{' '.join(words)}: exit code {process.returncode}: {output.strip()[-2000:]}"
        assert process.returncode in DOCUMENTED.get(words[0], (0, 1)), outcome
        assert "Traceback" not in output, outcome
        if process.returncode != 1:
            return f"{' '.join(words)}: {process.returncode}"
        assert "hint:" in output or words[0] == "drill", outcome
        return f"{' '.join(words)}: 1, {' '.join(output.split())[-150:]}"

    def _start(self, *words: str) -> "subprocess.Popen[str]":
        holdfast = Path(sys.executable).with_name("holdfast")
        return subprocess.Popen(
            [holdfast, "--project", self._soak.root, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    # what they share

    @property
    def _is_postgresql(self) -> bool:
        return self._soak.engine == "postgresql"

    @property
    def _url(self) -> str:
        return self._soak.project.config.control_url

    def _wait(self, injection: Injection) -> None:
        """As long as the fault lasts."""
        time.sleep(injection.seconds)

    def _primary(self, stream: SoakStream) -> ReplicaRow:
        """The primary, once there is one with a process."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            row = read_with_retries(stream.look).primary
            if row is not None and row.pid is not None and is_alive(row):
                return row
            time.sleep(0.2)
        raise AssertionError(f"{stream.name} has no primary: {stream.story()}")

    def _find_s3(self) -> psutil.Process:
        return psutil.Process(
            json.loads((self._soak.home / "object_store.json").read_text())["pid"]
        )


@contextmanager
def paused(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Stop processes, and let those that are still there continue."""
    stopped = []
    try:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
                stopped.append(process)
        if not stopped:
            raise NotApplicableError
        yield
    finally:
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


def _find_java(row: ReplicaRow) -> psutil.Process:
    children = psutil.Process(row.pid).children(recursive=True)
    java = [process for process in children if process.name() == "java"]
    if not java:
        raise NotApplicableError
    return java[0]


def _choose(values: Sequence[Value], injection: Injection) -> Value:
    return values[int(injection.draw * len(values))]
