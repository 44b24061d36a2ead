"""`holdfast logs`: the end of a replica's log, and what it gets afterwards."""

from pathlib import Path

from holdfast.orchestration.cli.commands.logs import read_last_lines, read_since
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from tests.builders.recorded_stream import REPLICA, STREAM, a_running_stream, an_open_project
from tests.builders.streams import a_secondary
from tests.cli import holdfast_json, run_holdfast


def test_the_primarys_last_lines_are_shown(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        folder = project.config.home / "replicas" / REPLICA
        folder.mkdir(parents=True)
        (folder / "replica.log").write_text("".join(f"line {n}\n" for n in range(100)))
        (folder / "spark.log").write_text("what Spark says\n")

        shown = run_holdfast(tmp_path, "logs", STREAM, "--lines", "2").stdout
        output = holdfast_json(tmp_path, "logs", STREAM, "--lines", "1", "--spark")

    assert shown == "line 98\nline 99\n"
    assert output["replica"] == REPLICA
    assert output["lines"] == ["what Spark says"]


def test_a_younger_secondary_has_to_be_named_while_there_is_a_primary(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        a_secondary(project, "s1", alive=False)
        shown = holdfast_json(tmp_path, "logs", STREAM)
        named = holdfast_json(tmp_path, "logs", STREAM, "--replica", "s1")
        project.store.replicas.end(REPLICA, ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        left = holdfast_json(tmp_path, "logs", STREAM)

    assert [output["replica"] for output in (shown, named, left)] == [REPLICA, "s1", "s1"]


def test_a_replica_that_never_was_is_an_error_that_names_those_that_were(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        result = run_holdfast(tmp_path, "logs", STREAM, "--replica", "other")

    assert result.exit_code == 1
    assert REPLICA in result.stderr


def test_a_stream_without_replicas_has_no_log(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "logs", STREAM)

    assert result.exit_code == 1
    assert f"holdfast start {STREAM}" in result.stderr


def test_a_log_that_was_rotated_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "replica.log"
    log.write_text("one\n")
    text, position = read_since(log, 0)
    log.write_text("one\ntwo\n")
    more, position = read_since(log, position)
    log.write_text("new\n")
    restarted, _ = read_since(log, position)

    assert (text, more, restarted) == ("one\n", "two\n", "new\n")


def test_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert list(read_last_lines(tmp_path / "none", 5)) == []
    assert read_since(tmp_path / "none", 0) == ("", 0)
