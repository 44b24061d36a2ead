"""Migrations of a live stream, by each protocol, with each process that takes part killed on the way."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.orchestration.playbooks.migrate import MigrationRequest
from holdfast.resources.control_store.incident_kinds import IncidentKind
from tests.live.spark_cluster import a_spark_cluster
from tests.live.stream import (
    DECLARATION,
    NAME,
    REPO,
    TIERED,
    LiveStream,
    a_live_stream,
    require_exact_output,
)

pytestmark = [pytest.mark.e2e, pytest.mark.crowded, pytest.mark.timeout(900)]


def resources(memory: str, **changes: Any) -> dict[str, Any]:
    return {**DECLARATION["resources"], "driver_memory": memory, **changes}


def test_a_stream_is_migrated_while_it_runs_and_whichever_replica_dies_nothing_is_lost(
    tmp_path: Path,
) -> None:
    with a_live_stream(tmp_path / "project", **TIERED) as stream:
        stream.start()
        stream.wait(lambda: len(stream.project.store.snapshots.of(NAME)) > 1, "snapshots")
        _an_incompatible_state_is_refused(stream)
        _target_that_has_caught_up_takes_over(stream, elsewhere=tmp_path / "elsewhere")
        _a_killed_source_is_followed_by_the_target(stream)
        _a_killed_target_is_started_again(stream)
        _a_dead_run_is_finished_by_the_next(stream)
        _a_target_that_fails_is_let_go(stream)
        require_exact_output(stream)


@pytest.mark.slow
def test_a_stream_moves_to_a_spark_cluster_and_back(tmp_path: Path) -> None:
    """With an application of its own, which the executors have to find, too."""
    (tmp_path / "cluster").mkdir()
    with (
        a_spark_cluster(tmp_path / "cluster") as master,
        a_live_stream(tmp_path / "project", **TIERED) as stream,
    ):
        own = release(
            stream,
            "releases/1",
            "from pyspark.sql import functions as sf",
            "from holdfast.apps.word_count import stream",
            "def same(key):",
            "    return key",
            "def build(df, params):",
            "    keys = sf.udf(same, df.schema['key'].dataType)('key')",
            "    return stream.build(df.withColumn('key', keys), params)",
        )
        stream.declare(**own)
        stream.start()
        for there in (master, "local[1]"):
            stream.declare(resources=resources("1g", master=there))
            command = by_hand(stream)
            assert command.returncode == 0, command
            stream.await_epoch(stream.epoch() + 5)
        require_exact_output(stream)


def by_hand(stream: LiveStream, *options: str) -> "subprocess.CompletedProcess[str]":
    """As an operator does it: what is below the project's folder is found there, and nothing else."""
    command = [Path(sys.executable).with_name("holdfast"), "--project", stream.root]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [*command, "migrate", NAME, *options],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def release(stream: LiveStream, code: str, *lines: str) -> dict[str, Any]:
    """A version of the application in a folder of its own."""
    folder = stream.root / code
    folder.mkdir(parents=True)
    (folder / "counting.py").write_text("\n".join(lines))
    return {"app": "counting:build", "code": code}


def _an_incompatible_state_is_refused(stream: LiveStream) -> None:
    """Spark's own rules tell: the target's query goes on from a snapshot, or does not."""
    own = "from tests.live.apps import counted_otherwise as build"
    path = f"import sys; sys.path.append({str(REPO)!r})"
    declared = release(stream, "releases/other_state", path, own)
    primary = stream.primary()
    stream.declare(**declared)
    command = by_hand(stream)
    assert command.returncode == 1, command
    assert "failed to continue from the snapshot" in " ".join(command.stdout.split()), command
    assert stream.primary().id == primary.id
    assert stream.project.store.migrations.history(NAME) == []


def _target_that_has_caught_up_takes_over(stream: LiveStream, *, elsewhere: Path) -> None:
    """Other code, other memory, and another folder: as on another disk."""
    old = stream.primary()
    declared = release(stream, "releases/2", "from holdfast.apps.word_count.stream import build")
    stream.declare(**declared, resources=resources("1100m", folder=str(elsewhere)))
    command = by_hand(stream)
    assert command.returncode == 0, command
    steps = [line.split()[2] for line in command.stdout.splitlines() if NAME in line]
    assert steps.index("HandOver") < steps.index("FinishMigration"), command
    new = stream.primary()
    assert new.id != old.id
    assert Path(new.folder).parent == elsewhere
    stream.await_epoch(stream.epoch() + 2)
    incidents = stream.project.store.incidents.of(NAME, open_only=False)
    assert not [incident for incident in incidents if incident.kind == IncidentKind.RECOVERY], (
        "it was no failure"
    )


def _a_killed_source_is_followed_by_the_target(stream: LiveStream) -> None:
    stream.declare(resources=resources("1200m"))
    with stream.upon("TurnSwitch", lambda: stream.signal(signal.SIGKILL)):
        list(stream.migrate(MigrationRequest(protocol=Protocol.REPLAY)))
    _require_memory(stream, memory="1200m")


def _a_killed_target_is_started_again(stream: LiveStream) -> None:
    stream.declare(resources=resources("1300m"))
    with stream.upon("AwaitCatchUp", lambda: stream.signal(signal.SIGKILL)):
        list(stream.migrate(MigrationRequest(protocol=Protocol.LEGACY)))
    _require_memory(stream, memory="1300m")


def _a_dead_run_is_finished_by_the_next(stream: LiveStream) -> None:
    """As the recovery sensor's run finishes it, when Dagster is back."""
    stream.declare(resources=resources("1400m"))
    steps = stream.migrate(MigrationRequest())
    assert next(steps).name == "LaunchSecondary"
    steps.close()  # type: ignore[attr-defined]
    assert "FinishMigration" in {step.name for step in stream.recover()}
    _require_memory(stream, memory="1400m")


def _a_target_that_fails_is_let_go(stream: LiveStream) -> None:
    """No Spark master answers there, so the target is not up in time, and leaves before Spark gives up.

    The primary has never stopped.
    """
    primary = stream.primary()
    stream.declare(resources=resources("1400m", master="spark://127.0.0.1:9"))
    with pytest.raises(PermanentError, match="rolled back"):
        list(stream.migrate(MigrationRequest(within_seconds=8.0)))
    assert stream.primary().id == primary.id
    assert stream.look().secondary is None
    _require_memory(stream, memory="1400m")


def _require_memory(stream: LiveStream, *, memory: str) -> None:
    row = stream.project.store.streams.get(NAME)
    assert row is not None
    assert row.declaration["resources"]["driver_memory"] == memory
    assert {replica.rollout for replica in stream.project.store.replicas.of(NAME)} == {row.rollout}
    stream.await_epoch(stream.epoch() + 2)
