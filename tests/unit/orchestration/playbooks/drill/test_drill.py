"""Drills on a stream whose drivers are simulated: their processes are real, and are really struck."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.observation.reports.drills import drill_rows
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.drill.drill import Awaited, Drill
from holdfast.resources.control_store.records import ReplicaRow, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.streaming.replica.fault_injection import blocked_until
from tests.builders.control_rows import a_snapshot
from tests.builders.playbooks import run_recovery
from tests.builders.streams import CLICKS, PATIENT, a_wanted_stream
from tests.fakes.drivers import SimulatedDrivers, simulated_drivers
from tests.fakes.projects import SimulatedProject, simulated_projects
from tests.waiting import wait_until

STANDBY = {"tier": "active_standby"}


@contextmanager
def a_live_project(
    root: Path, **changes: object
) -> Iterator[tuple[SimulatedProject, SimulatedDrivers]]:
    """A stream whose replicas were all launched, so that no fault strikes the test itself."""
    with (
        simulated_projects(root, supervision=PATIENT, **changes).open() as project,
        simulated_drivers(project) as drivers,
    ):
        a_wanted_stream(project)
        run_recovery(drivers)
        yield project, drivers


def primary_of(project: SimulatedProject) -> ReplicaRow:
    row = observe_stream(project, CLICKS).primary
    assert row is not None
    return row


def drilled(drivers: SimulatedDrivers, run: str = "r", **how: object) -> Drill:
    return Drill(drivers.project, CLICKS, run, keep_alive=measuring(drivers), **how)  # type: ignore[arg-type]


def measuring(drivers: SimulatedDrivers) -> Callable[[], None]:
    """A replica that has taken over tells how long it took."""
    store, first = drivers.project.store, primary_of(drivers.project).id
    reported = set()

    def beat() -> None:
        drivers.act()
        primary = observe_stream(drivers.project, CLICKS).primary
        if primary is not None and primary.id not in {first, *reported}:
            reported.add(primary.id)
            took = {SampleName.DETECT_SECONDS: 0.5, SampleName.RECOVERY_SECONDS: 1.5}
            store.samples.write(
                [
                    Sample(stream=CLICKS, replica=primary.id, name=n, value=v)
                    for n, v in took.items()
                ]
            )

    return beat


def names(drill: Drill) -> list[str]:
    return [step.name for step in drill.steps()]


def test_a_killed_primary_is_followed_by_its_secondary_and_the_report_has_the_times(
    tmp_path: Path,
) -> None:
    with a_live_project(tmp_path, **STANDBY) as (project, drivers):
        struck = primary_of(project)
        assert names(drilled(drivers)) == ["InjectFault", "Recover", "Report"], (
            "it was back at once"
        )
        assert primary_of(project).id != struck.id
        assert observe_stream(project, CLICKS).covers_its_tier
        [row] = drill_rows(project, [CLICKS])
        assert (row["drill"], row["about"], row["tier"]) == ("kill", struck.id, "active_standby")
        assert (row["observed_seconds"], row["objective_seconds"], row["held"]) == (1.5, 10.0, True)


def test_a_stream_that_comes_back_and_lags_is_back(tmp_path: Path) -> None:
    with a_live_project(tmp_path, **STANDBY) as (project, drivers):
        struck, steps = primary_of(project).id, drilled(drivers).steps()
        assert next(steps).name == "InjectFault"
        run_recovery(drivers)
        now, replica = project.store.now(), primary_of(project).id
        assert replica != struck
        project.store.samples.write(
            [
                Sample(stream=CLICKS, replica=replica, name=SampleName.LAG_SECONDS,
                       value=300.0 - back, at=now - 5.0 * back)
                for back in range(20)
            ]
        )  # fmt: skip
        assert observe_stream(project, CLICKS).verdict.health is Health.LAGGING
        assert next(steps).name == "Report"


def test_a_paused_primary_is_let_go_and_leaves(tmp_path: Path) -> None:
    with a_live_project(tmp_path, **STANDBY) as (project, drivers):
        struck = primary_of(project)
        assert struck.pid is not None
        process = psutil.Process(struck.pid)
        steps = drilled(drivers, fault=Fault.PAUSE).steps()
        assert next(steps).name == "InjectFault"
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
        assert [step.name for step in steps] == ["Recover", "Release", "Report"]
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_without_a_secondary_the_drill_itself_brings_the_stream_back(tmp_path: Path) -> None:
    with a_live_project(tmp_path) as (project, drivers):
        project.timing_changes["relaunch_within_seconds"] = 0.1
        done = list(drilled(drivers).steps())
    assert [step.name for step in done] == ["InjectFault", "AwaitBack", "Recover", "Report"]
    assert done[1].result == Awaited(by_itself=False)
    assert done[2].result.as_dict()["steps"].startswith("Fence")


def test_a_drill_that_was_cut_short_is_finished_by_the_next_one(tmp_path: Path) -> None:
    with a_live_project(tmp_path, **STANDBY) as (project, drivers):
        struck = primary_of(project)
        steps = drilled(drivers, "first").steps()
        assert next(steps).name == "InjectFault"
        steps.close()  # type: ignore[attr-defined]
        assert names(drilled(drivers, "second")) == ["Recover", "Report"]
        [row] = drill_rows(project, [CLICKS])
        assert (row["about"], row["run"]) == (struck.id, "second")


def test_a_stream_is_not_struck_more_often_than_it_may_be(tmp_path: Path) -> None:
    drills = {"most": 1, "per": "1h"}
    with a_live_project(tmp_path, **STANDBY, drills=drills) as (project, drivers):
        names(drilled(drivers, "first"))
        struck = primary_of(project)
        with pytest.raises(PermanentError, match="disturbed 1 times in the last 1 h"):
            names(drilled(drivers, "second"))
        assert primary_of(project).id == struck.id
        assert "InjectFault" in names(drilled(drivers, "third", beyond_budget=True))


def test_a_cut_ends_by_itself_and_the_drill_waits_for_a_snapshot(tmp_path: Path) -> None:
    with a_live_project(tmp_path) as (project, drivers):
        struck = primary_of(project)
        looks = 0

        def ship_again() -> None:
            nonlocal looks
            looks += 1
            drivers.act()
            healed_at = blocked_until(Path(struck.folder)) + 0.5
            if looks > 4:
                row = a_snapshot("s1", 1, stream=CLICKS, created_at=healed_at)
                project.store.snapshots.record(row)

        drill = Drill(
            project=project, stream=CLICKS, run="r", fault=Fault.CUT_OFF,
            cut_off_seconds=0.2, keep_alive=ship_again,
        )  # fmt: skip
        [struck_it, back, reported] = list(drill.steps())
        assert (struck_it.name, back.name, reported.name) == ("InjectFault", "AwaitBack", "Report")
        assert reported.result.as_dict()["healed_seconds"] == pytest.approx(0.5)
        assert primary_of(project).id == struck.id
