"""How each kind of fault of a soak is injected and ends; which streams have to go on after it."""

import json
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import psutil

from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.process import find_process
from tests.chaos.faults import is_alive
from tests.chaos.soak_input import write_broken_file
from tests.chaos.soak_operator import Operator
from tests.chaos.soak_plan import Injection, Kind, Lane, NotApplicableError, Outcome
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

POINT_SECONDS = 60.0
REMOVE_SECONDS = 30.0
AHEAD = (60.0, 600.0, 3600.0)
BACK = (-3.0, -30.0, -3600.0)
LEADER = "services.supervisor"
Action: TypeAlias = Callable[[Injection, SoakStream], str | Outcome]


class Injector:
    """Injects faults into a project. Each method returns once the fault is over, with what it did."""

    def __init__(self, soak: SoakProject) -> None:
        self._soak = soak
        self._operator = Operator(soak)

    def find_action(self, kind: Kind) -> Action:
        """The method that injects faults of a kind."""
        owner = self._operator if kind.lane is Lane.OPERATOR else self
        action: Action = getattr(owner, f"_{kind.name.replace('-', '_')}")
        return action

    def inject(self, injection: Injection, stream: SoakStream) -> Outcome:
        """Inject a fault of any kind, and heal it."""
        try:
            outcome = self.find_action(injection.kind)(injection, stream)
            return Outcome(outcome) if isinstance(outcome, str) else outcome
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
        row, point = self._primary(stream), injection.choose(POINTS)
        arm(stream.root, point, read_with_retries(stream.epoch), replica=row.id)
        deadline = time.monotonic() + POINT_SECONDS
        while is_alive(row) and time.monotonic() < deadline:
            time.sleep(0.1)
        if disarm(stream.root, row.id):
            raise NotApplicableError  # another fault is in the way, or has killed it
        return f"{row.id} {point}"

    def _kill_secondary(self, _: Injection, stream: SoakStream) -> str:
        row = read_with_retries(stream.look).secondary
        if row is None or not is_alive(row):
            raise NotApplicableError
        stream.hit(row)
        stream.await_secondary()
        return row.id

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

    def _pause_secondary(self, injection: Injection, stream: SoakStream) -> str:
        row = read_with_retries(stream.look).secondary
        if row is None or row.pid is None or not is_alive(row):
            raise NotApplicableError
        with paused([psutil.Process(row.pid)]):
            self._wait(injection)
        stream.await_secondary()
        return f"{row.id} for {injection.seconds:.0f} s"

    def _corrupt_snapshot(self, injection: Injection, stream: SoakStream) -> str:
        """The newest snapshot loses its end after the drivers that might need it are killed."""
        if not self._find_packs(stream)[1]:
            raise NotApplicableError
        killed = self._kill_both(injection, stream)
        newest, packs = self._find_packs(
            stream
        )  # the drivers may have shipped until they were killed
        for pack in packs:
            with suppress(FileNotFoundError):
                os.truncate(pack, max(pack.stat().st_size - 7, 0))
        if not packs:
            stream.await_new_epochs()
            raise NotApplicableError
        return f"{newest}, {killed}"

    def _find_packs(self, stream: SoakStream) -> tuple[str, list[Path]]:
        """The newest snapshot, and the packs that were written for it."""
        newest = read_with_retries(lambda: self._soak.project.store.snapshots.newest(stream.name))
        if newest is None:
            return "", []
        packs = self._soak.home / "objects" / "holdfast" / stream.name / "packs"
        return newest.id, list(packs.glob(f"{newest.id}*.pack"))

    def _lost_folder(self, _: Injection, stream: SoakStream) -> str:
        """The disk of the primary is lost with its driver and its Java."""
        row = self._primary(stream)
        process = find_process(row)
        if process is None or not process.send(signal.SIGKILL):
            raise NotApplicableError
        deadline = time.monotonic() + REMOVE_SECONDS
        while Path(row.folder).exists():  # its Java may still write
            assert time.monotonic() < deadline, f"{row.folder} cannot be removed"
            shutil.rmtree(row.folder, ignore_errors=True)
        return row.id

    # files

    def _edited_yaml(self, injection: Injection, stream: SoakStream) -> str:
        """While one file has a mistake, all streams go on; a restore of this one is finished when it is right again."""
        with stream.editing:
            right = stream.file.read_text()
            wrong = injection.choose(
                (
                    right.replace('"tier"', '"teir"'),
                    right[: len(right) // 2],
                    right.replace('"kind"', '"sort"'),
                )
            )
            stream.edit(wrong)
            try:
                self._wait(injection)
                for each in self._soak.streams.values():
                    each.await_new_epochs(unless=stream.is_restoring if each is stream else never)
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

    def _broken_input(self, _: Injection, stream: SoakStream) -> str:
        """A file with lines that cannot be read; at the end the dead letters are compared with these files."""
        folder = stream.root / "input"
        name = write_broken_file(folder, len(list(folder.iterdir())))
        files = self._soak.project.store.epoch_files
        stream.await_condition(
            lambda: bool(files.find(stream.name, [name])), f"epoch that has {name}"
        )
        return name

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
        self._await_new_snapshots()
        return f"for {injection.seconds:.0f} s"

    def _kill_s3(self, _injection: Injection, _: SoakStream) -> str:
        self._find_s3().kill()
        self._await_new_snapshots()
        return ""

    def _await_new_snapshots(self) -> None:
        """Epochs need no object store; snapshots do."""
        for stream in self._soak.streams.values():
            stream.await_new_snapshot()

    def _kill_dagster(self, injection: Injection, _: SoakStream) -> str:
        self._soak.dagster.kill()
        self._wait(injection)
        tick = self._soak.find_tick()
        self._soak.ensure_dagster()
        self._soak.await_tick_after(tick)
        return f"for {injection.seconds:.0f} s"

    def _kill_dagster_process(self, injection: Injection, _: SoakStream) -> str:
        # not the leader: it is the one that starts the others again
        others = [
            each
            for each in self._list_dagster()
            if not any(LEADER in word for word in each.cmdline())
        ]
        if not others:
            raise NotApplicableError
        victim = injection.choose(sorted(others, key=lambda each: each.pid))
        name = " ".join(victim.cmdline()[1:4])
        victim.kill()
        self._soak.await_tick_after(self._soak.find_tick())
        return name

    def _pause_dagster(self, injection: Injection, _: SoakStream) -> str:
        with paused(self._list_dagster()):
            self._wait(injection)
        self._soak.await_tick_after(self._soak.find_tick())
        return f"for {injection.seconds:.0f} s"

    def _list_dagster(self) -> list[psutil.Process]:
        processes = []
        for pid in self._soak.dagster.processes():
            with suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(pid))
        return processes

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
        step = injection.choose((*AHEAD, *BACK))
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
        raise AssertionError(f"{stream.name} has no primary: {stream.tell()}")

    def _find_s3(self) -> psutil.Process:
        record = json.loads((self._soak.home / "object_store.json").read_text())
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE:
            raise NotApplicableError
        return process


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


def never() -> bool:
    return False
