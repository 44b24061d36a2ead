"""Reading what Dagster says of itself."""

from typing import Any

from holdfast.orchestration.services.dagster_health import ask_health, parse_health


def an_answer(
    *, healthy: bool = True, status: str = "LOADED", error: str | None = None
) -> dict[str, Any]:
    loaded = {"__typename": "RepositoryLocation"}
    failed = {"__typename": "PythonError", "message": error}
    daemons = [
        {"daemonType": "SENSOR", "required": True, "healthy": healthy},
        {"daemonType": "BACKFILL", "required": False, "healthy": None},
    ]
    entry = {
        "name": "holdfast",
        "loadStatus": status,
        "locationOrLoadError": failed if error else loaded,
    }
    return {
        "instance": {"daemonHealth": {"allDaemonStatuses": daemons}},
        "workspaceOrError": {"locationEntries": [entry]},
    }


def test_dagster_is_ready_when_code_is_loaded_and_daemons_beat() -> None:
    assert parse_health(an_answer()).ready


def test_a_daemon_that_does_not_beat_yet_is_waited_for() -> None:
    assert parse_health(an_answer(healthy=False)).waits_for == ("the sensor daemon",)


def test_code_that_loads_is_waited_for() -> None:
    assert parse_health(an_answer(status="LOADING")).waits_for == ("the code of holdfast",)


def test_code_that_cannot_be_loaded_is_broken_and_not_waited_for() -> None:
    health = parse_health(an_answer(error="ImportError: no module\n  at line 3"))

    assert not health.ready
    assert health.broken == "holdfast: ImportError: no module"


def test_a_server_that_does_not_answer_is_a_fact() -> None:
    health = ask_health("http://127.0.0.1:9", "any")

    assert not health.answers
    assert not health.ready
