"""Where the demo plays: a project of its own, and the mark by which its processes are known."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

import holdfast.configs
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.service import free_port

STREAM = "word_count"
MARK = "HOLDFAST_DEMO"
LEAVE_SECONDS = 30.0


@contextmanager
def stage(folder: Path | None, *, keep: bool) -> Iterator[Path]:
    """A new project folder with one stream; everything that is started from here is marked."""
    root = _new(folder)
    declared = Path(holdfast.configs.__file__).parent
    for part in (f"streams/{STREAM}.yaml", "prices/on_demand.yaml"):
        (root / "configs" / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(declared / part, root / "configs" / part)
    (root / "configs" / "holdfast.yaml").write_text(f"dagster:\n  port: {free_port()}\n")
    os.environ[MARK] = str(root)
    try:
        yield root
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
        os.environ.pop(MARK, None)


def left_behind(root: Path) -> list[psutil.Process]:
    """The processes that come from this demo and still run."""
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _mark_of(process) == str(root)
    ]


def see_off(root: Path) -> list[str]:
    """Wait for the last processes to leave, end those that do not, and tell which they were."""
    deadline = SYSTEM_CLOCK.monotonic() + LEAVE_SECONDS
    while (left := left_behind(root)) and SYSTEM_CLOCK.monotonic() < deadline:
        SYSTEM_CLOCK.sleep(0.2)
    told = [f"{process.pid} {_name(process)}" for process in left]
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=5)
    return told


def _new(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve()
    if folder.exists():
        raise PermanentError(f"{folder} exists already", hint="the demo makes a folder of its own")
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
