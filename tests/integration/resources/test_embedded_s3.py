import fcntl
import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.object_store.s3 import S3ObjectStore
from tests.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedS3]:
    server = EmbeddedS3(tmp_path / "home")
    yield server
    server.stop()


def kept(home: Path) -> dict[str, object]:
    settings: dict[str, object] = json.loads((home / "object_store.json").read_text())
    return settings


def pid_of(home: Path) -> int:
    return int(str(kept(home)["pid"]))


def kill(home: Path) -> None:
    process = psutil.Process(pid_of(home))
    process.send_signal(signal.SIGKILL)
    process.wait(10)


def ensure_in_process(home: str) -> str:
    return str(EmbeddedS3(Path(home)).ensure().endpoint_url)


def test_it_starts_once_and_is_adopted(server: EmbeddedS3, tmp_path: Path) -> None:
    first = server.ensure()
    pid = pid_of(tmp_path / "home")
    assert EmbeddedS3(tmp_path / "home").ensure() == first
    assert pid_of(tmp_path / "home") == pid
    assert server.alive()


def test_one_that_runs_is_used_while_a_stopped_command_holds_the_lock(
    server: EmbeddedS3, tmp_path: Path
) -> None:
    first = server.ensure()
    with (tmp_path / "home" / "object_store.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert EmbeddedS3(tmp_path / "home").ensure() == first


def test_several_processes_start_one_server(server: EmbeddedS3, tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        endpoints = set(pool.map(ensure_in_process, [str(tmp_path / "home")] * 4))
    assert endpoints == {server.connection().endpoint_url}
    home = str(tmp_path / "home" / "objects")
    serving = [
        process
        for process in psutil.process_iter(["cmdline"])
        if home in (process.info["cmdline"] or [])
    ]
    assert len(serving) == 1


def test_what_was_acknowledged_survives_a_killed_server(server: EmbeddedS3, tmp_path: Path) -> None:
    before = server.ensure()
    store = S3ObjectStore(server.ensure)
    large = os.urandom(3 << 20)
    for n in range(20):
        store.put(f"small/{n:02d}", str(n).encode())
    store.put("large", large)
    kill(tmp_path / "home")
    assert not server.alive()
    assert server.ensure() == before
    assert [item.key for item in store.list("small/")] == [f"small/{n:02d}" for n in range(20)]
    assert store.get("large") == large


def test_a_store_that_connects_by_ensuring_heals_itself(server: EmbeddedS3, tmp_path: Path) -> None:
    store = S3ObjectStore(server.ensure)
    store.put("a", b"1")
    kill(tmp_path / "home")
    assert store.get("a") == b"1"


def test_it_moves_if_its_port_was_taken(server: EmbeddedS3, tmp_path: Path) -> None:
    store = S3ObjectStore(server.connection)
    before = server.ensure()
    store.put("a", b"1")
    kill(tmp_path / "home")
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", int(str(kept(tmp_path / "home")["port"]))))
        squatter.listen()
        after = server.ensure()
        assert after.endpoint_url != before.endpoint_url
    assert after.secret_access_key == before.secret_access_key
    assert store.get("a") == b"1"


def test_a_put_is_listed_at_once_and_a_change_on_the_disk_soon(
    server: EmbeddedS3, tmp_path: Path
) -> None:
    store = S3ObjectStore(server.ensure)
    for n in range(5):
        store.put(f"p/{n}", b"x")
        assert len(store.list("p/")) == n + 1
    (tmp_path / "home/objects/holdfast/p/0").write_bytes(b"longer than before")
    wait_until(lambda: store.list("p/0")[0].size_bytes == 18, every_seconds=0.02)
    assert store.get("p/0") == b"longer than before"


def test_the_keys_are_for_their_owner_only(server: EmbeddedS3, tmp_path: Path) -> None:
    secret = server.ensure().secret_access_key
    assert secret is not None
    mode = (tmp_path / "home/object_store.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    command = psutil.Process(pid_of(tmp_path / "home")).cmdline()
    assert not any(secret in argument for argument in command)
    assert secret not in (tmp_path / "home/logs/object_store.log").read_text()


def test_it_stops_what_it_started_and_nothing_else(server: EmbeddedS3, tmp_path: Path) -> None:
    server.ensure()
    pid = pid_of(tmp_path / "home")
    assert server.stop()
    assert not psutil.pid_exists(pid)
    assert not server.stop()
    # The process id now belongs to another process: this very test.
    record = kept(tmp_path / "home") | {"pid": os.getpid()}
    (tmp_path / "home/object_store.json").write_text(json.dumps(record))
    assert not server.alive()
    assert not server.stop()


def test_before_the_first_start_there_is_no_connection(tmp_path: Path) -> None:
    with pytest.raises(
        PermanentError, match="the embedded object store was never started"
    ) as error:
        EmbeddedS3(tmp_path / "never").connection()
    assert "holdfast up" in error.value.hint
    assert not EmbeddedS3(tmp_path / "never").alive()
    assert not EmbeddedS3(tmp_path / "never").stop()


def test_a_record_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "object_store.json").write_text("{")
    with pytest.raises(PermanentError, match="not readable"):
        EmbeddedS3(tmp_path).connection()
