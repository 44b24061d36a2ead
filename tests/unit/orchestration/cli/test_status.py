"""`holdfast status` and `incidents`: the same facts for programs and for people."""

import os
from pathlib import Path

import pytest
import yaml

from holdfast.ft_policies.tiers import Switches
from holdfast.orchestration.cli import format as words
from holdfast.resources.control_store.records import EndedBy
from tests.support.cli import facts, holdfast
from tests.support.cli_world import (
    REPLICA,
    STREAM,
    a_running_stream,
    a_snapshot,
    a_world,
    beat,
    commit,
    decide,
)


def test_a_declared_stream_that_never_ran_is_stopped(tmp_path: Path) -> None:
    with a_world(tmp_path):
        (stream,) = facts(tmp_path, "status")["streams"]

    assert stream["health"] == "stopped"
    assert stream["tier"] == "passive_replication"
    assert stream["replicas"] == []
    assert stream["epoch_committed"] is None
    assert stream["lag_rows"] is None
    assert stream["snapshot"] is None
    assert stream["recovery_time_seconds"] == 10.0


def test_a_running_stream_shows_epochs_lag_rate_state_and_snapshot(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        a_running_stream(world, epochs=5, committed=3)
        newest = a_snapshot(world, epoch=2)
        (stream,) = facts(tmp_path, "status", STREAM)["streams"]

    assert stream["health"] == "healthy"
    assert (stream["epoch_committed"], stream["epoch_decided"]) == (2, 4)
    assert stream["lag_epochs"] == 2
    assert stream["lag_rows"] == 207
    assert stream["rate_rows_per_second"] > 0
    assert (stream["state_rows"], stream["state_bytes"]) == (40, 1234)
    assert stream["snapshot"]["id"] == newest
    (replica,) = stream["replicas"]
    assert (replica["id"], replica["pid"]) == (REPLICA, os.getpid())
    assert replica["desired"] == replica["observed"] == ["deploy", "receive", "process", "send"]


def test_figures_of_an_ended_replica_are_not_shown_as_present(tmp_path: Path) -> None:
    from holdfast.resources.control_store.records import ReplicaState

    with a_world(tmp_path) as world:
        a_running_stream(world)
        world.store.replicas.end(REPLICA, ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        (stream,) = facts(tmp_path, "status")["streams"]

    assert stream["failed"]
    assert stream["health"] == "missing"
    assert stream["rate_rows_per_second"] is None


def test_people_see_switches_that_differ_and_open_incidents(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        a_running_stream(world)
        beat(world, Switches(deploy=True), epoch=2)
        world.store.incidents.open(
            stream=STREAM, key="k", kind="recovery", detail={"reason": "the process is gone"}
        )
        shown = holdfast(tmp_path, "status").stdout

    assert "on: deploy; wanted: deploy, receive, process, send" in shown
    assert f"pid {os.getpid()}" in shown
    assert "open incidents" in shown
    assert "the process is gone" in shown
    assert "of 4" in shown


def test_incidents_are_listed_newest_first_and_closed_ones_with_their_outcome(
    tmp_path: Path,
) -> None:
    with a_world(tmp_path) as world:
        a_running_stream(world)
        for number in range(2):
            one = world.store.incidents.open(
                stream=STREAM, key=f"k{number}", kind="recovery", detail={}
            )
        world.store.incidents.close(one.id, "recovered in 12 s")
        listed = facts(tmp_path, "incidents", STREAM)["incidents"]
        still_open = facts(tmp_path, "incidents", "--open")["incidents"]
        shown = holdfast(tmp_path, "incidents").stdout

    assert [i["key"] for i in listed] == ["k1", "k0"]
    assert [i["key"] for i in still_open] == ["k0"]
    assert "recovered in 12 s" in shown


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (words.age(3), "3 s"),
        (words.age(119), "119 s"),
        (words.age(120), "2 min"),
        (words.age(3 * 86400), "3 d"),
        (words.size(999), "999 B"),
        (words.size(1_234_567), "1.2 MB"),
        (words.seconds(0.04), "0.0 s"),
        (words.seconds(95.4), "95 s"),
        (words.plural(1, "epoch"), "1 epoch"),
        (words.plural(2_000, "row"), "2,000 rows"),
        (words.size(None), "-"),
    ],
)
def test_quantities_are_said_in_one_unit(said: str, meant: str) -> None:
    assert said == meant


def test_people_see_that_a_stream_is_half_restored(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        decide(world, 3)
        for epoch in range(3):
            commit(world, epoch)
        wish = world.store.restores.want(STREAM, epoch=1, snapshot=None, why="bad app", run="r")
        world.store.restores.begin(wish)
        result = holdfast(tmp_path, "status")
        (stream,) = facts(tmp_path, "status")["streams"]

    told = "clicks: is half restored to epoch 1: `holdfast restore clicks` finishes it"
    assert told in result.output
    assert (stream["last_restore"]["epoch"], stream["last_restore"]["why"]) == (1, "bad app")


def test_people_see_that_a_file_says_otherwise_than_what_runs(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        a_running_stream(world)
        (before,) = facts(tmp_path, "status")["streams"]
        (file,) = tmp_path.glob("configs/streams/*.yaml")
        declared = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump({**declared, "resources": {"driver_memory": "3g"}}))
        result = holdfast(tmp_path, "status")
        (after,) = facts(tmp_path, "status")["streams"]

    assert (before["not_rolled_out"], after["not_rolled_out"]) == ([], ["resources"])
    assert (
        "its file says otherwise of resources: `holdfast migrate clicks` brings it, or"
        in " ".join(result.output.split())
    )
