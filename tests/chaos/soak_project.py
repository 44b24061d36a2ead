"""The project of a soak: a few small streams in different tiers, their input, their database, their Dagster."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import psutil
from sqlalchemy.exc import OperationalError

from holdfast.apps.word_count.oracle import expected
from holdfast.ft_policies.errors import HoldfastError, TransientError
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.proof import Proof, prove
from holdfast.observation.tables import open_table_at
from holdfast.resources.project import Project, open_project
from tests.chaos.faults import is_alive
from tests.chaos.soak_input import COLUMNS, WrittenFiles, find_wrong_dead_letters, write_input
from tests.chaos.soak_plan import FILES, SMALL_DISK, Engine
from tests.live.dagster_server import LiveDagster, a_live_dagster
from tests.live.postgres import fresh_database, shift_server_clock
from tests.live.stepped_clock import follow_clock
from tests.live.stream import DECLARATION, ON_ROCKSDB, REPO, LiveStream

PATIENCE_SECONDS = 600.0
"""A replica that is stuck is given up after 90 s, the next one after 180 s, and each start may take a minute."""
LOOK_SECONDS = 0.2
DAGSTER_LOOK_SECONDS = 2.0
DISK_MEGABYTES = 256
Value = TypeVar("Value")

COMMON: dict[str, Any] = {
    **DECLARATION,
    "params": {"window": "10 seconds", "delay": "2 seconds"},
    "source": {
        "kind": "rate",
        "seed": 3,
        "keys": 100,
        "profile": {"kind": "constant", "rows_per_second": 50},
    },
    "epoch": {"seconds": 3.0, "silence": 6},
    "checkpoint": {"epochs": 4},
    "secondary": {"sync": "5s"},
    "supervision": {"heartbeat": "1s", "lease": "6s", "stuck_after": "90s"},
    "drills": {"most": 1000},
}
LINES_SOURCE: dict[str, Any] = {
    "kind": "files",
    "format": "jsonl",
    "schema": COLUMNS,
    "settle": 0.5,
    "poll": 0.5,
    "dead_letters": {"most": 1.0},
}
DEPLOYMENT: dict[str, Any] = {
    "retention": {"restore_window": "3d", "records": "1h"},
    "samples": {"keep": "1h"},
}


class SoakStream(LiveStream):
    """One of the streams, which bears that the control store does not answer for a while."""

    def __init__(self, project: Project, name: str, traits: Sequence[str]) -> None:
        super().__init__(project, name)
        self.traits = traits
        self.file = self.root / "configs" / "streams" / f"{name}.yaml"
        self.editing = threading.Lock()

    def edit(self, text: str) -> None:
        """Replace the declaration, as an editor does."""
        scratch = self.root / f"{self.name}.edited"
        scratch.write_text(text)
        scratch.replace(self.file)

    def await_new_epochs(
        self, count: int = 2, *, unless: Callable[[], bool] = lambda: False
    ) -> float:
        """Wait until the stream has committed so many epochs more; returns the seconds that took.

        A restore takes the stream back: then it is as many epochs after the one that it went back to.
        """
        began = time.monotonic()
        lowest = reached = read_with_retries(self.epoch)
        while reached < lowest + count and not read_with_retries(unless):
            waited = time.monotonic() - began
            assert waited < PATIENCE_SECONDS, (
                f"{self.name} has committed {reached} and not {lowest + count} after {waited:.0f} s: {self.tell()}"
            )
            time.sleep(LOOK_SECONDS)
            reached = read_with_retries(self.epoch)
            lowest = min(lowest, reached)
        return time.monotonic() - began

    def await_new_snapshot(self) -> None:
        """Wait for a snapshot that nothing knows yet: the object store takes and gives again."""
        old = read_with_retries(self._snapshots)
        self.await_condition(lambda: bool(self._snapshots() - old), "new snapshot")

    def await_secondary(self) -> None:
        """Wait until a secondary lives, unless the tier needs none."""

        def is_there() -> bool:
            status = self.look()
            row = status.secondary
            return not SECONDARY[status.tier].deploy or (row is not None and is_alive(row))

        self.await_condition(is_there, "secondary")

    def await_condition(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that the control store shows."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not read_with_retries(condition):
            assert time.monotonic() < deadline, f"{self.name} has no {what}: {self.tell()}"
            time.sleep(LOOK_SECONDS)

    def is_restoring(self) -> bool:
        """Whether a restore was begun that is not finished."""
        restore = self.project.store.restores.newest(self.name)
        return restore is not None and not restore.finished

    def tell(self) -> str:
        """The story of a failure."""
        return read_with_retries(self.story)

    def _snapshots(self) -> set[str]:
        return {row.id for row in self.project.store.snapshots.of(self.name)}

    def _note(self) -> None:
        """What is left in the end is found by its folder; the control store may not answer during a fault."""

    def prove(self) -> Proof:
        source = WrittenFiles(self.root / "input") if FILES in self.traits else None
        return prove(self.project, self.name, expected, source=source)

    def find_wrong_dead_letters(self) -> list[str]:
        """The broken lines of its input that its dead letters do not have exactly once."""
        path = self.project.config.dead_letters_path(self.name)
        table = None if path is None else open_table_at(self.project, path)
        rejected = (
            pd.DataFrame(columns=["file", "position"]) if table is None else table.to_pandas()
        )
        names = [file.name for file in (self.root / "input").glob("*-broken.jsonl")]
        return find_wrong_dead_letters(rejected, names if FILES in self.traits else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakProject:
    """Everything that faults are injected into."""

    project: Project
    streams: dict[str, SoakStream]
    dagster: LiveDagster
    engine: Engine
    small_disk: Path | None
    over: threading.Event = field(default_factory=threading.Event)
    """No further faults: time is up, or something did not hold."""

    @property
    def root(self) -> Path:
        return self.project.config.root

    @property
    def home(self) -> Path:
        return self.project.config.home

    def ensure_dagster(self) -> None:
        """What the systemd timer does: start Dagster unless it runs, again and again."""
        self._await_dagster(self._is_started, "does not start")

    def _is_started(self) -> bool:
        try:
            self.dagster.ensure()
        except HoldfastError:
            return False
        return True

    def find_tick(self) -> int:
        """The newest tick of the recovery sensor, ended or not."""
        ticks: list[int] = []

        def is_read() -> bool:
            ticks.append(self.dagster.newest_tick())
            return True

        self._await_dagster(is_read, "has no storage")
        return ticks[-1]

    def await_tick_after(self, tick: int) -> None:
        """Wait until Dagster is healthy and its recovery sensor has looked at the streams again.

        A service that loses a process right after its start ends: then it is started by what stands for the timer.
        """

        def has_looked() -> bool:
            if not self.dagster.is_running() and not self._is_started():
                return False
            return self.dagster.is_ready() and self.dagster.newest_tick(ended=True) > tick

        self._await_dagster(has_looked, "is not ready again")

    def _await_dagster(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(OperationalError):  # another process writes to Dagster's storage
                if condition():
                    return
            assert time.monotonic() < deadline, f"Dagster {what}"
            time.sleep(DAGSTER_LOOK_SECONDS)

    def list_processes(self) -> list[psutil.Process]:
        """All processes that work for the project: in its folder, or with it in their command line."""
        processes = []
        for process in psutil.process_iter():
            try:
                ours = process.cwd().startswith(str(self.root)) or any(
                    str(self.root) in word for word in process.cmdline()
                )
                runs = ours and process.status() != psutil.STATUS_ZOMBIE
                if runs and process.pid != os.getpid() and not _is_ancestor(process):
                    processes.append(process)
            except (psutil.Error, OSError):
                continue
        return processes


def _is_ancestor(process: psutil.Process) -> bool:
    """Whether this process runs below it: the shell that names the folder in its command line."""
    return process in psutil.Process().parents()


def read_with_retries(read: Callable[[], Value]) -> Value:
    """Read, again and again while the control store does not answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return read()
        except TransientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)


@contextmanager
def a_small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of its own, in memory; only root may mount one. Its files are kept for the evidence."""
    folder.mkdir()
    size = f"size={DISK_MEGABYTES}m"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
        (folder / "filler").unlink(missing_ok=True)
        shutil.copytree(folder, folder.with_name(f"{folder.name}.kept"))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def declare_streams(root: Path, small_disk: Path | None, count: int) -> dict[str, list[str]]:
    """The files of the project; the value has the traits of each stream."""
    on_disk = [] if small_disk is None else [SMALL_DISK]
    sink = {} if small_disk is None else {"sink": {"kind": "delta", "path": f"{small_disk}/table"}}
    source = {**LINES_SOURCE, "path": str(root / "input")}
    declarations = [
        {**COMMON, "name": "words", "tier": Tier.PASSIVE_REPLICATION},
        {**COMMON, "name": "lines", "tier": Tier.PASSIVE_STANDBY_HOT, "source": source, **sink},
        {**COMMON, "name": "rocks", "tier": Tier.DEPLOYED, "resources": ON_ROCKSDB},
    ][:count]
    streams = root / "configs" / "streams"
    streams.mkdir(parents=True)
    shutil.copytree(REPO / "configs" / "price_lists", root / "configs" / "prices")
    for declaration in declarations:
        (streams / f"{declaration['name']}.yaml").write_text(json.dumps(declaration))
    traits = {"lines": [FILES, *on_disk]}
    return {str(each["name"]): traits.get(str(each["name"]), []) for each in declarations}


@contextmanager
def a_soak_project(folder: Path, engine: Engine, streams: int) -> Iterator[SoakProject]:
    """The project with its streams declared and its Dagster not yet started; nothing of it runs afterwards."""
    root = folder / "project"
    (root / "input").mkdir(parents=True)
    with ExitStack() as opened:
        small_disk = opened.enter_context(a_small_disk(folder / "small-disk"))
        deployment = dict(DEPLOYMENT)
        if engine is Engine.POSTGRESQL:
            url = opened.enter_context(fresh_database(durable=True))
            shift_server_clock(
                url, 0.0
            )  # sessions look for the clock where they did when they began
            deployment["control_store"] = {"url": url}
        traits = declare_streams(root, small_disk, streams)
        (root / "configs" / "holdfast.yaml").write_text(json.dumps(deployment))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(root), str(REPO)])
        follow_clock(root)
        project = opened.enter_context(open_project(root))
        live = {name: SoakStream(project, name, traits[name]) for name in traits}
        dagster = opened.enter_context(a_live_dagster(project.config))
        soak = SoakProject(
            project=project, streams=live, dagster=dagster, engine=engine, small_disk=small_disk
        )
        writer = threading.Thread(target=write_input, args=(root / "input", soak.over), daemon=True)
        writer.start()
        try:
            yield soak
        finally:
            soak.over.set()
            with suppress(HoldfastError):  # what does not end in time is killed
                dagster.stop()
            for process in soak.list_processes():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
