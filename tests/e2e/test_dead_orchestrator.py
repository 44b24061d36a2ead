"""Dagster dies, the driver dies while nobody watches, Dagster comes back: one recovery, no loss."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from orchestration.services.dagster_server import DagsterServer
from resources.embedded_s3 import EmbeddedS3
from resources.ports import free_port
from tests.support.live_stream import NAME, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def kill_all(server: DagsterServer) -> None:
    for pid in server.processes():
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_stream_outlives_dagster_and_is_recovered_once_when_dagster_is_back(
    tmp_path: Path,
) -> None:
    with a_live_stream(tmp_path) as stream:
        store = stream.world.store
        server = DagsterServer(stream.world.project)
        try:
            stream.start()
            server.ensure(port=free_port())
            survivor = stream.primary()
            kill_all(server)
            stream.await_epoch(stream.epoch() + 5)
            assert stream.primary().id == survivor.id

            stream.signal(signal.SIGKILL)
            embedded = stream.world.embedded_s3()
            assert isinstance(embedded, EmbeddedS3)
            embedded.stop()
            stream.await_failure()
            fell_at = stream.epoch()

            server.ensure(port=free_port())
            stream.await_epoch(fell_at + 5, seconds=240)
            stream.wait(lambda: not store.incidents.of(NAME), "closed incident", seconds=120)
            incidents = [
                i for i in store.incidents.of(NAME, open_only=False) if i.kind == "recovery"
            ]
            assert len(incidents) == 1, incidents
            assert incidents[0].outcome.startswith("recovered")
            assert len(store.replicas.of(NAME, live=False)) == 2
        finally:
            server.stop()
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof
        assert not server.processes()
