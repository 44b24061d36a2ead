"""A live stream that is taken back to a past epoch beside a zombie, and forked; both go on exactly."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.apps.word_count.oracle import expected
from holdfast.assets.outputs import audit
from holdfast.ft_policies.errors import TransientError
from holdfast.observation.proof import prove
from holdfast.observation.tables import open_table
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.playbooks.recover import Start
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.control_store.schema import replicas
from holdfast.resources.process import find_process
from holdfast.resources.project import Project, open_project
from holdfast.streaming.sinks.delta.lineage import EPOCH, HISTORY, RESTORED_TO
from tests.live.stream import (
    NAME,
    ON_ROCKSDB,
    TIERED,
    LiveStream,
    a_live_stream,
    require_exact_output,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
FORK = "trial"


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param({}, id="alone"),
        pytest.param(
            {**TIERED, "tier": "passive_standby_hot", "resources": ON_ROCKSDB},
            id="with a secondary, on RocksDB",
            marks=[pytest.mark.slow, pytest.mark.crowded],
        ),
    ],
)
def test_a_stream_goes_back_beside_a_zombie_and_on_and_its_fork_goes_another_way(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    with a_live_stream(tmp_path, **declared) as stream:
        stream.start()
        stream.await_epoch(10)
        point = stream.epoch() - 5
        with a_zombie(stream) as zombie:
            steps = restored(stream, point)
            assert steps == [
                "StopStream", "BeginHistory", "MarkSnapshots", "RollOutput", "EndRestore", "StartStream"
            ]  # fmt: skip
            assert stream.epoch() > point
        stream.await_epoch(stream.epoch() + 4)
        assert writers_since_the_restore(stream) == {"1"}
        assert stream.primary().id != zombie.id
        require_exact_output(stream)
        require_fork(stream)


@contextmanager
def a_zombie(stream: LiveStream) -> Iterator[ReplicaRow]:
    """A primary on another host, as far as can be observed, that is paused and wakes up later."""
    paused = stream.primary()
    process = find_process(paused)
    assert process is not None
    elsewhere = replicas.update().where(replicas.c.id == paused.id).values(host="elsewhere")
    for _ in range(5):
        stream.hit(paused, signal.SIGSTOP)
        with suppress(TransientError):  # it may have been stopped in the middle of a write
            stream.project.store._database.execute(elsewhere)
            break
        stream.hit(paused, signal.SIGCONT)
    yield paused
    assert process.is_alive()
    psutil.Process(process.pid).send_signal(signal.SIGCONT)
    stream.wait(lambda: not process.is_alive(), "end of the zombie", 30)


def restored(stream: LiveStream, epoch: int) -> list[str]:
    target, impatient = RestoreTarget(epoch=epoch), 1.0
    steps = Restore(
        stream.project, NAME, "test", target=target, why="a test", patience_seconds=impatient
    ).steps()
    names = [step.name for step in steps]
    stream._note()
    return names


def writers_since_the_restore(stream: LiveStream) -> set[str]:
    """The histories of those who have committed to the table since it was rolled."""
    table = open_table(stream.project, NAME)
    assert table is not None
    since = takewhile(lambda line: RESTORED_TO not in line, table.history())
    return {line[HISTORY] for line in since if EPOCH in line}


def require_fork(stream: LiveStream) -> None:
    """Fork the stopped stream by the command line, run the fork, and hold both against the oracle."""
    before, point = whole(stream), stream.epoch() - 3
    command = [Path(sys.executable).with_name("holdfast"), "--project", stream.root]
    result = subprocess.run(
        [*command, "restore", NAME, "--epoch", str(point), "--as", FORK, "--json"],
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    steps = [step["step"] for step in json.loads(result.stdout)["steps"]]
    assert steps == ["CopySnapshot", "CopyOutput", "CopyEpochs", "WriteDeclaration"]
    with open_project(stream.root) as project:
        list(Start(project, FORK, "test").steps())
        stream.wait(lambda: committed(project) >= point + 4, "epochs of the fork", 60)
        list(Stop(project, FORK, "test").steps())
        proof = prove(project, FORK, expected)
        assert proof.holds, proof.faults()
        assert audit(project, FORK).passed
    assert whole(stream) == before
    embedded = stream.project.embedded_s3()
    assert embedded is not None
    embedded.stop()
    stream.wait(lambda: not stream.left(), "end of all processes", 30)


def committed(project: Project) -> int:
    last = project.store.ledger.last(FORK)
    return -1 if last is None else last.epoch


def whole(stream: LiveStream) -> dict[str, Any]:
    """Everything that there is of the original: rows, objects and table."""
    stream.project.ensure_object_store()
    store, vault = stream.project.store, stream.project.vault(NAME)
    table = open_table(stream.project, NAME)
    assert table is not None
    return {
        "epochs": store.epochs.between(NAME, 0, 10_000),
        "ledger": store.ledger.between(NAME, 0, 10_000),
        "histories": store.restores.of(NAME),
        "snapshots": vault.listing(),
        "manifests": [vault.manifest(snapshot.id).encode() for snapshot in vault.list()],
        "version": table.version(),
        "files": sorted(table.file_uris()),
        "replicas": store.replicas.of(NAME, live=False),
    }
