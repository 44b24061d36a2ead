"""The demo's own project folder, and the mark in the environment of every process started from it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

import holdfast.configs
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.clock import wait_until
from holdfast.resources.service import find_free_port

STREAM = "word_count"
MARK = "HOLDFAST_DEMO"
EXIT_SECONDS = 30.0
POLL_SECONDS = 0.2


@contextmanager
def stage(folder: Path | None, *, keep: bool) -> Iterator[Path]:
    """Create a project folder with one stream; every process started meanwhile is marked."""
    root = _create_folder(folder)
    declared = Path(holdfast.configs.__file__).parent
    streams = root / "configs" / "streams"
    streams.mkdir(parents=True, exist_ok=True)
    shutil.copy(declared / "streams" / f"{STREAM}.yaml", streams)
    (root / "configs" / "holdfast.yaml").write_text(f"dagster:\n  port: {find_free_port()}\n")
    os.environ[MARK] = str(root)
    try:
        yield root
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
        os.environ.pop(MARK, None)


def find_processes(root: Path) -> list[psutil.Process]:
    """Find the running processes of this demo by their mark."""
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _mark_of(process) == str(root)
    ]


def await_exit(root: Path) -> list[str]:
    """Wait until the demo's processes have exited; kill the others, and return their pids and names."""
    wait_until(
        lambda: not find_processes(root), patience_seconds=EXIT_SECONDS, poll_seconds=POLL_SECONDS
    )
    left = find_processes(root)
    names = [f"{process.pid} {_name(process)}" for process in left]
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=5)
    return names


def _create_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve()
    if folder.exists():
        raise PermanentError(f"{folder} already exists", hint="give a folder that does not exist")
    folder.mkdir(parents=True)
    return folder.resolve()


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
