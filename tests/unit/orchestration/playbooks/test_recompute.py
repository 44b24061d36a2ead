"""An epoch is computed again by a driver of its own, which has a limited time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.orchestration.playbooks.launch import build_spec
from holdfast.orchestration.playbooks.recompute import Recomputed, recompute
from holdfast.resources.control_store.records import Slot
from holdfast.resources.process import ProcessHandle
from holdfast.resources.project import Project
from tests.builders.playbooks import a_driven_project
from tests.builders.streams import CLICKS
from tests.fakes.clocks import SteppedClock
from tests.fakes.recomputer import GONE, SimulatedRecomputer


def recompute_epoch(project: Project, folder: Path) -> Recomputed:
    folder.mkdir()
    stream = project.config.stream(CLICKS)
    spec = build_spec(project.config, stream, Slot.SECONDARY, folder.name, folder)
    return recompute(project, spec, folder / "checkpoint", 4)


def test_the_driver_is_launched_as_replicas_are_and_its_result_read(tmp_path: Path) -> None:
    with a_driven_project(tmp_path, clock=SteppedClock()) as (project, drivers):
        recomputer = SimulatedRecomputer(drivers.launch, rows=3, digest="d")
        project.launch.launcher = recomputer
        computed = recompute_epoch(project, tmp_path / "scratch")
    assert computed == Recomputed(rows=3, digest="d")
    assert [epoch for epoch, _ in recomputer.tried] == [4]


def test_a_driver_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    with a_driven_project(tmp_path, clock=SteppedClock()) as (project, drivers):
        with pytest.raises(TransientError, match="epoch 4 was not computed within 420 s"):
            recompute_epoch(project, tmp_path / "scratch")
        [child] = drivers.children
        assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize(
    ("result", "expected", "text"),
    [
        ("", PermanentError, "the driver ended without a result: out of memory"),
        ('{"error": "no S3", "hint": "", "lasts": false}', TransientError, "no S3"),
        ('{"error": "another state", "hint": "", "lasts": true}', PermanentError, "another state"),
    ],
)
def test_what_a_driver_could_not_do_is_said_with_its_cause(
    tmp_path: Path, result: str, expected: type[HoldfastError], text: str
) -> None:
    def end_at_once(
        _: Sequence[str], *, folder: Path, output: Path, environment: Mapping[str, str]
    ) -> ProcessHandle:
        output.write_text("starting\nout of memory\n")
        if result:
            output.with_name("recomputed.json").write_text(result)
        return GONE

    with a_driven_project(tmp_path, clock=SteppedClock()) as (project, _):
        project.launch.launcher = end_at_once
        with pytest.raises(expected, match=text):
            recompute_epoch(project, tmp_path / "scratch")
