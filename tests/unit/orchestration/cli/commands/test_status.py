"""`holdfast status` and `incidents`: the same facts as JSON and on the screen."""

import os
from pathlib import Path

import yaml

from holdfast.ft_policies.tiers import Switches
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from tests.builders.recorded_stream import (
    REPLICA,
    STREAM,
    a_running_stream,
    a_snapshot,
    an_open_project,
    beat,
    commit,
    decide,
)
from tests.cli import holdfast_json, run_holdfast


def test_a_declared_stream_that_never_ran_is_stopped(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        (stream,) = holdfast_json(tmp_path, "status")["streams"]

    assert stream["health"] == "stopped"
    assert stream["tier"] == "passive_replication"
    assert stream["replicas"] == []
    assert stream["epoch_committed"] is None
    assert (stream["lag_rows"], stream["lag_seconds"]) == (0, 0.0)
    assert stream["snapshot"] is None
    assert stream["recovery_time_seconds"] == 10.0


def test_a_running_stream_shows_epochs_lag_rate_state_and_snapshot(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project, epochs=5, committed=3)
        newest = a_snapshot(project, epoch=2)
        (stream,) = holdfast_json(tmp_path, "status", STREAM)["streams"]

    assert stream["health"] == "healthy"
    assert (stream["epoch_committed"], stream["epoch_decided"]) == (2, 4)
    assert stream["lag_epochs"] == 2
    assert (stream["lag_rows"], stream["lag_seconds"]) == (207, 2.5)
    assert stream["rate_rows_per_second"] > 0
    assert (stream["state_rows"], stream["state_bytes"]) == (40, 1234)
    assert stream["snapshot"]["id"] == newest
    (replica,) = stream["replicas"]
    assert (replica["id"], replica["pid"]) == (REPLICA, os.getpid())
    assert replica["desired"] == replica["observed"] == ["deploy", "receive", "process", "send"]


def test_figures_of_an_ended_replica_are_not_shown_as_present(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        project.store.replicas.end(REPLICA, ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        (stream,) = holdfast_json(tmp_path, "status")["streams"]

    assert stream["failed"]
    assert stream["health"] == "missing"
    assert (stream["state_rows"], stream["state_bytes"]) == (None, None)


def test_without_a_driver_waiting_input_counts_and_the_rate_decays(tmp_path: Path) -> None:
    """100 rows/s are declared; five epochs were decided, one a second, and none in the last 20 s."""
    with an_open_project(tmp_path) as project:
        a_running_stream(project, epochs=5, committed=3, decided_ago=20.0)
        project.store.replicas.end(REPLICA, ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        (stream,) = holdfast_json(tmp_path, "status")["streams"]
        shown = run_holdfast(tmp_path, "status").stdout

    assert 2_200 <= stream["lag_rows"] <= 4_000
    assert 22 <= stream["lag_seconds"] <= 40
    assert 0 < stream["rate_rows_per_second"] < 400 / 20
    assert " rows" in shown
    assert "100 rows/s" not in shown


def test_the_screen_shows_switches_that_differ_and_open_incidents(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        beat(project, Switches(deploy=True), epoch=2)
        project.store.incidents.open(
            stream=STREAM,
            key="k",
            kind=IncidentKind.RECOVERY,
            detail={"reason": "the process is gone"},
        )
        shown = run_holdfast(tmp_path, "status").stdout

    assert "on: deploy; wanted: deploy, receive, process, send" in shown
    assert f"pid {os.getpid()}" in shown
    assert "open incidents" in shown
    assert "the process is gone" in shown
    assert "of 4" in shown


def test_incidents_are_listed_newest_first_and_closed_ones_with_their_outcome(
    tmp_path: Path,
) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        for number in range(2):
            incident = project.store.incidents.open(
                stream=STREAM, key=f"k{number}", kind=IncidentKind.RECOVERY, detail={}
            )
        project.store.incidents.close(incident.id, "recovered in 12 s")
        listed = holdfast_json(tmp_path, "incidents", STREAM)["incidents"]
        still_open = holdfast_json(tmp_path, "incidents", "--open")["incidents"]
        shown = run_holdfast(tmp_path, "incidents").stdout

    assert [i["key"] for i in listed] == ["k1", "k0"]
    assert [i["key"] for i in still_open] == ["k0"]
    assert "recovered in 12 s" in shown


def test_an_unfinished_restore_is_shown_with_its_command(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        decide(project, 3)
        for epoch in range(3):
            commit(project, epoch)
        request = project.store.restores.request(
            STREAM, epoch=1, snapshot=None, why="bad app", run="r"
        )
        project.store.restores.begin(request)
        result = run_holdfast(tmp_path, "status")
        (stream,) = holdfast_json(tmp_path, "status")["streams"]

    remark = "clicks: restore to epoch 1 is unfinished: run `holdfast restore clicks` to finish it"
    assert remark in " ".join(result.output.split())
    assert (stream["last_restore"]["epoch"], stream["last_restore"]["why"]) == (1, "bad app")


def test_a_declaration_that_the_stream_is_not_migrated_to_is_shown(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        (before,) = holdfast_json(tmp_path, "status")["streams"]
        (file,) = tmp_path.glob("configs/streams/*.yaml")
        declared = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump({**declared, "resources": {"driver_memory": "3g"}}))
        result = run_holdfast(tmp_path, "status")
        (after,) = holdfast_json(tmp_path, "status")["streams"]

    assert (before["not_migrated"], after["not_migrated"]) == ([], ["resources"])
    assert (
        "clicks: declared and not migrated: resources; run `holdfast migrate clicks`"
        in " ".join(result.output.split())
    )
