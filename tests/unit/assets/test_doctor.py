"""The doctor in Dagster: its check, and the job that repairs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from holdfast.assets.doctor import judge
from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.orchestration.definitions import build_definitions
from tests.builders.doctor_facts import a_snapshot, a_well_stream, records
from tests.builders.doctor_stream import (
    a_stopped_stream,
    doctor_projects,
    finding_kinds,
    manifest_key,
    pack_key,
)
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProjects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    projects = doctor_projects(tmp_path / "project")
    with projects.open() as project:
        a_stopped_stream(project, tmp_path / "checkpoint")
        project.objects.delete([pack_key(project, 3)])
    return projects


def ran(
    projects: SimulatedProjects, job: str, config: Mapping[str, Any]
) -> dg.ExecuteInProcessResult:
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
    return definitions.resolve_job_def(job).execute_in_process(run_config=dict(config))


def repair(projects: SimulatedProjects, **config: object) -> dg.ExecuteInProcessResult:
    options = {"stream": CLICKS, **config}
    return ran(projects, "repair_stream", {"ops": {"repair": {"config": options}}})


def test_severity_decides_whether_the_check_passes_warns_or_fails() -> None:
    def judged(**facts: object) -> dg.AssetCheckResult:
        return judge(diagnose(a_well_stream(**facts)))

    well = judged()
    assert (well.passed, well.description) == (True, "all well")
    assert judged(snapshots=(a_snapshot(7, catalogued=False),)).passed
    warned = judged(without_manifest=("s5",))
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)
    failed = judged(records=records(undecided=(3,)))
    assert (failed.passed, failed.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert failed.description == "epoch log, epoch 3: Epochs are missing in the epoch log."


def test_the_audit_runs_the_doctor(projects: SimulatedProjects) -> None:
    evaluations = {
        evaluation.check_name: evaluation
        for evaluation in ran(projects, "audit", {}).get_asset_check_evaluations()
    }
    doctor = evaluations["doctor"]
    assert not doctor.passed
    assert doctor.severity is dg.AssetCheckSeverity.WARN
    assert doctor.metadata["finding_count"].value == 1


def test_the_job_repairs_only_when_asked_to(projects: SimulatedProjects) -> None:
    planned = repair(projects)
    [output] = [e for e in planned.all_events if e.event_type_value == "STEP_OUTPUT"]
    plan = output.step_output_data.metadata["plan"]
    assert isinstance(plan, dg.TableMetadataValue)
    assert [record.data["step"] for record in plan.records] == ["SetAsideSnapshots"]
    assert "finding_count" in output.step_output_data.metadata
    assert manifest_key(3) in projects.objects.objects
    result = repair(projects, dry_run=False)
    assert result.success
    with projects.open() as project:
        assert finding_kinds(project) == []
        lines = project.store.journal.of(CLICKS, run=result.run_id)
    assert [(line.playbook, line.step, line.phase.value) for line in lines] == [
        ("repair", "SetAsideSnapshots", "intent"),
        ("repair", "SetAsideSnapshots", "done"),
    ]
