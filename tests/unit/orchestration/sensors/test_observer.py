"""The observer: what is new shows in Dagster once, and nothing shows if nothing is new."""

from pathlib import Path

import dagster as dg
import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.lag import FRESH_SECONDS, OBSERVER
from holdfast.orchestration.sensors.observer import Marks, StreamMark, stream_observer
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    LedgerEntry,
    ReplicaState,
    Sample,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import sample_values
from tests.builders.control_rows import a_snapshot
from tests.builders.streams import CLICKS, a_primary, a_secondary, a_wanted_stream, commit_epochs
from tests.fakes.followers import PATIENT
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, supervision=PATIENT)


def tick(projects: SimulatedProjects, cursor: str | None) -> dg.SensorResult:
    result = stream_observer(dg.build_sensor_context(cursor=cursor), projects=projects)
    assert isinstance(result, dg.SensorResult)
    return result


def shown(result: dg.SensorResult) -> list[tuple[str, str]]:
    return [
        (type(event).__name__, event.asset_key.to_user_string())
        for event in result.asset_events or []
    ]


def aged(cursor: str | None) -> str:
    """The cursor as it is once progress may be reported again."""
    marks = Marks.parse(cursor)
    streams = {
        name: mark.model_copy(update={"reported_at": 0.0}) for name, mark in marks.streams.items()
    }
    return Marks(streams=streams).model_dump_json()


def value(event: object, key: str) -> object:
    assert isinstance(event, dg.AssetMaterialization | dg.AssetObservation)
    return event.metadata[key].value


def a_running_stream(projects: SimulatedProjects, epochs: int) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        commit_epochs(project, epochs)
        project.store.samples.write(
            [Sample(stream=CLICKS, replica="r1", name=SampleName.LAG_ROWS, value=7.0)]
        )


def test_committed_epochs_advance_the_stream_and_its_output(projects: SimulatedProjects) -> None:
    a_running_stream(projects, epochs=3)
    result = tick(projects, None)
    assert shown(result) == [
        ("AssetMaterialization", "streams/clicks"),
        ("AssetMaterialization", "outputs/clicks"),
        ("AssetObservation", "streams/clicks"),
        ("AssetCheckEvaluation", "streams/clicks"),
        ("AssetMaterialization", "tiers/clicks"),
        ("AssetCheckEvaluation", "tiers/clicks"),
    ]
    stream, output, health, *_ = result.asset_events
    assert value(stream, "epoch") == 2
    assert value(stream, "lag_rows") == 7.0
    assert value(stream, "tier") == value(stream, "covered_tier") == "passive_replication"
    assert value(output, "rows_since_last_report") == 30
    assert value(health, "health") == "healthy"


def test_the_lag_of_a_stream_without_a_driver_is_recorded_and_shown(
    projects: SimulatedProjects,
) -> None:
    a_running_stream(projects, epochs=3)
    cursor = tick(projects, None).cursor
    with projects.open() as project:
        project.store.replicas.end("r1", ReplicaState.DEAD, "gone", by=EndedBy.PLAYBOOK)
    health, *_ = tick(projects, cursor).asset_events
    assert value(health, "health") == "missing"
    rows = value(health, "lag_rows")
    assert isinstance(rows, int)
    assert rows > 1_000  # its first row was produced long ago
    with projects.open() as project:
        (sample,) = project.store.samples.series(CLICKS, SampleName.LAG_SECONDS)
        assert (sample.replica, sample.value > 100) == (OBSERVER, True)


def test_the_source_of_a_stream_without_a_driver_is_read_once_a_minute(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 3)
    cursor = tick(projects, None).cursor
    for _ in range(3):
        cursor = tick(projects, cursor).cursor
    with projects.open() as project:
        samples = project.store.samples
        assert len(samples.series(CLICKS, SampleName.LAG_SECONDS)) == 1
        a_minute_ago = project.store.now() - FRESH_SECONDS
        project.store._database.execute(sample_values.update().values(at=a_minute_ago))
        tick(projects, cursor)
        assert len(samples.series(CLICKS, SampleName.LAG_SECONDS)) == 2


def test_nothing_is_shown_twice(projects: SimulatedProjects) -> None:
    a_running_stream(projects, epochs=3)
    first = tick(projects, None)
    second = tick(projects, aged(first.cursor))
    assert shown(second) == []
    assert second.skip_reason is not None
    assert second.skip_reason.skip_message == "nothing has changed"


def test_only_what_is_new_counts(projects: SimulatedProjects) -> None:
    a_running_stream(projects, epochs=3)
    cursor = tick(projects, None).cursor
    with projects.open() as project:
        commit_epochs(project, 5)
    result = tick(projects, aged(cursor))
    assert value(result.asset_events[1], "epochs_since_last_report") == 2
    assert value(result.asset_events[1], "epoch") == 4


def test_a_stream_that_was_restored_shows_what_it_commits_again(
    projects: SimulatedProjects,
) -> None:
    a_running_stream(projects, epochs=5)
    cursor = tick(projects, None).cursor
    with projects.open() as project:
        store = project.store
        request = store.restores.request(CLICKS, epoch=1, snapshot=None, why="", run="")
        store.replicas.end("r1", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert store.restores.begin(request) == 3
        entry = LedgerEntry(stream=CLICKS, epoch=2, replica="r2", token=2, rows=4, digest="mended")
        store.ledger.commit(entry, history=1)
    result = tick(projects, aged(cursor))
    assert value(result.asset_events[0], "epoch") == 2
    assert value(result.asset_events[1], "rows_since_last_report") == 4
    assert shown(tick(projects, aged(result.cursor))) == []


def test_progress_is_shown_at_most_now_and_then(projects: SimulatedProjects) -> None:
    a_running_stream(projects, epochs=3)
    cursor = tick(projects, None).cursor
    with projects.open() as project:
        commit_epochs(project, 5)
    soon = tick(projects, cursor)
    assert shown(soon) == []
    assert Marks.parse(soon.cursor).streams[CLICKS].epoch == 2


def test_a_change_of_health_is_shown_at_once(projects: SimulatedProjects) -> None:
    a_running_stream(projects, epochs=1)
    cursor = tick(projects, None).cursor
    with projects.open() as project:
        project.store.replicas.end("r1", ReplicaState.FAILED, "no luck", by=EndedBy.REPLICA)
    observation, check = tick(projects, cursor).asset_events
    assert value(observation, "health") == "missing"
    assert value(observation, "was") == "healthy"
    assert isinstance(check, dg.AssetCheckEvaluation)
    assert (check.check_name, check.passed) == ("healthy", False)


def test_a_change_of_tier_or_of_cover_is_shown_at_once_and_once(
    projects: SimulatedProjects,
) -> None:
    a_running_stream(projects, epochs=1)
    cursor = tick(projects, None).cursor
    with projects.open() as project:
        project.store.tiers.desire(CLICKS, "deployed", why="asked", run="run-1")
    asked = tick(projects, cursor)
    assert shown(asked) == [
        ("AssetMaterialization", "tiers/clicks"),
        ("AssetCheckEvaluation", "tiers/clicks"),
    ]
    change, check = asked.asset_events
    assert value(change, "tier") == "deployed"
    assert value(change, "covered_tier") == "passive_replication"
    assert isinstance(check, dg.AssetCheckEvaluation)
    assert (check.check_name, check.passed) == ("tier_is_covered", False)
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert shown(tick(projects, asked.cursor)) == []

    with projects.open() as project:
        a_secondary(project, observed=SECONDARY[Tier.DEPLOYED])
    covered, check = tick(projects, asked.cursor).asset_events
    assert value(covered, "covered_strength") == 1
    assert isinstance(check, dg.AssetCheckEvaluation)
    assert check.passed


def test_a_new_snapshot_is_shown_with_its_figures(projects: SimulatedProjects) -> None:
    cursor = tick(projects, None).cursor
    with projects.open() as project:
        project.store.snapshots.record(a_snapshot("s1", 4, stream=CLICKS))
    result = tick(projects, cursor)
    [event] = result.asset_events
    assert shown(result) == [("AssetMaterialization", "snapshots/clicks")]
    assert value(event, "new_bytes") == 30
    assert value(event, "age_seconds") >= 0.0  # type: ignore[operator]
    assert shown(tick(projects, result.cursor)) == []


def test_snapshots_that_follow_soon_are_shown_later_as_one(projects: SimulatedProjects) -> None:
    cursor, reported = None, []
    for epoch in (4, 5, 6):
        with projects.open() as project:
            project.store.snapshots.record(a_snapshot(f"s{epoch}", epoch, stream=CLICKS))
        result = tick(projects, cursor)
        cursor = result.cursor
        if ("AssetMaterialization", "snapshots/clicks") in shown(result):
            reported.append(epoch)
    assert reported == [4]
    assert Marks.parse(cursor).streams[CLICKS].snapshot == "s4"


@pytest.mark.parametrize(
    "cursor",
    [None, "", "not json", '{"streams": 7}', '{"streams": {"clicks": {"epoch": "x"}}}'],
)
def test_a_cursor_that_cannot_be_read_is_an_empty_one(cursor: str | None) -> None:
    assert Marks.parse(cursor) == Marks()


def test_a_cursor_survives_its_serialiser_and_fields_of_another_version() -> None:
    marks = Marks(streams={CLICKS: StreamMark(epoch=4, health="healthy", snapshot="s")})
    assert Marks.parse(marks.model_dump_json()) == marks
    newer = '{"version": 9, "streams": {"clicks": {"epoch": 4, "mood": "good"}}}'
    assert Marks.parse(newer).streams[CLICKS].epoch == 4


def test_a_control_store_that_is_away_keeps_the_cursor(projects: SimulatedProjects) -> None:
    projects.failures.append(TransientError("locked", hint="wait"))
    result = tick(projects, "{}")
    assert result.cursor is None
    assert result.skip_reason is not None
