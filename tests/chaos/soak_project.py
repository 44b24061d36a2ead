"""The project of a soak: a few small streams in different tiers, their input, their database, their Dagster."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import psutil
import pyarrow as pa
from pyarrow import parquet

from holdfast.apps.word_count.oracle import expected
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.proof import Proof, prove
from holdfast.resources.project import Project, open_project
from holdfast.streaming.sources.base import Json, Split
from tests.chaos.soak_plan import FILES, SMALL_DISK, Engine
from tests.live.dagster_server import LiveDagster, a_live_dagster
from tests.live.postgres import fresh_database, shift_server_clock
from tests.live.stepped_clock import follow_clock
from tests.live.stream import DECLARATION, ON_ROCKSDB, REPO, LiveStream

PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.2
DISK_MEGABYTES = 256
FILE_SECONDS, FILE_ROWS = 1.5, 60
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
    "format": "parquet",
    "schema": "event_time timestamp, key int",
    "settle": 0.5,
    "poll": 0.5,
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

    def await_new_epochs(self, count: int = 2) -> float:
        """Wait until the stream has committed so many epochs more; returns the seconds that took."""
        began = time.monotonic()
        goal = read_with_retries(self.epoch) + count
        while (reached := read_with_retries(self.epoch)) < goal:
            waited = time.monotonic() - began
            assert waited < PATIENCE_SECONDS, (
                f"{self.name} has committed {reached} and not {goal} after {waited:.0f} s: {self.story()}"
            )
            time.sleep(LOOK_SECONDS)
        return time.monotonic() - began

    def prove(self) -> Proof:
        source = WrittenFiles(self.root / "input") if FILES in self.traits else None
        return prove(self.project, self.name, expected, source=source)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The input files as pandas reads them."""

    folder: Path

    def splits(self, taken: Json) -> Sequence[Split]:
        return [Split(input=file) for file in taken["files"]]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        frame = pd.read_parquet(self.folder / split.input["name"])
        yield from pa.Table.from_pandas(frame, preserve_index=False).to_batches()


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
        """What the systemd timer does: start Dagster unless it runs."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.dagster.ensure()
            except TransientError:
                assert time.monotonic() < deadline, "Dagster does not start"

    def list_processes(self) -> list[psutil.Process]:
        """All processes that work for the project: in its folder, or with it in their command line."""
        processes = []
        for process in psutil.process_iter():
            try:
                ours = process.cwd().startswith(str(self.root)) or any(
                    str(self.root) in word for word in process.cmdline()
                )
                if ours and process.pid != os.getpid() and not _is_ancestor(process):
                    processes.append(process)
            except (psutil.Error, OSError):
                continue
        return [process for process in processes if process.status() != psutil.STATUS_ZOMBIE]


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


def write_input(folder: Path, over: threading.Event) -> None:
    """A file every moment, the rows of each a function of its number; a folder that is away is waited for."""
    number = 0
    while not over.wait(FILE_SECONDS):
        at = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(
            [number * FILE_SECONDS + row / FILE_ROWS for row in range(FILE_ROWS)], unit="s"
        )
        keys = [(number * 7 + row * row) % 100 for row in range(FILE_ROWS)]
        scratch = folder.parent / "next.parquet"
        table = pa.table({"event_time": at.as_unit("us"), "key": pa.array(keys, pa.int32())})
        parquet.write_table(table, scratch)
        try:
            scratch.rename(folder / f"{number:08}.parquet")
        except FileNotFoundError:
            continue
        number += 1


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
            dagster.stop()
            for process in soak.list_processes():
                process.kill()
