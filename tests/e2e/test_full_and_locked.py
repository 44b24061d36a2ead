"""A control store that is locked and a disk that is full: the stream waits, and goes on."""

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.live.stream import LiveStream, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def log_of(stream: LiveStream) -> str:
    return (Path(stream.primary().folder) / "replica.log").read_text()


@pytest.mark.slow
def test_a_locked_control_store_delays_a_stream_and_costs_nothing(tmp_path: Path) -> None:
    with a_live_stream(tmp_path) as stream:
        stream.start()
        stream.await_epoch(3)
        primary = stream.primary()
        with closing(sqlite3.connect(stream.project.config.home / "control.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            stream.wait(
                lambda: log_of(stream).count("a heartbeat failed") >= 2, "failed heartbeats"
            )
            waited_at = stream.epoch()
            other.rollback()
        stream.await_epoch(waited_at + 5)
        assert stream.primary().id == primary.id
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes; only root may mount one."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a full disk needs the right to mount one: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def filled_up(disk: Path) -> Path:
    """Take all the room that is left, with one file."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as filling, suppress(OSError):
        while True:
            filling.write(bytes(4096))
    return filler


def test_a_full_disk_while_staging_holds_a_stream_up_until_there_is_room(
    tmp_path: Path, small_disk: Path
) -> None:
    sink = {"kind": "delta", "path": str(small_disk / "table")}
    with a_live_stream(tmp_path / "project", sink=sink) as stream:
        stream.start()
        stream.await_epoch(3)
        primary = stream.primary()
        filler = filled_up(small_disk)
        stream.wait(lambda: "No space left on device" in log_of(stream), "a full disk")
        stream.wait(lambda: "restarting the query in" in log_of(stream), "another try")
        filler.unlink()
        stream.await_epoch(stream.epoch() + 5)
        assert stream.primary().id == primary.id
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof
