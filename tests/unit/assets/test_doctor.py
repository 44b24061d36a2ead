"""The doctor in Dagster: its check, and the job that repairs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from holdfast.assets.doctor import judge
from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.orchestration.definitions import definitions_of
from tests.fakes.examined import a_snapshot, a_well_stream, records
from tests.fakes.worlds import CLICKS, SimulatedWorlds
from tests.support.patients import a_patient, kinds, manifest_key, pack_key, patients


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedWorlds:
    found = patients(tmp_path / "project")
    with found.open() as world:
        a_patient(world, tmp_path / "checkpoint")
        world.objects.delete([pack_key(world, 3)])
    return found


def ran(worlds: SimulatedWorlds, job: str, config: Mapping[str, Any]) -> dg.ExecuteInProcessResult:
    with worlds.open() as world:
        definitions = definitions_of(world.config, worlds)
    return definitions.resolve_job_def(job).execute_in_process(run_config=dict(config))


def repair(worlds: SimulatedWorlds, **config: object) -> dg.ExecuteInProcessResult:
    asked = {"stream": CLICKS, **config}
    return ran(worlds, "repair_stream", {"ops": {"repair": {"config": asked}}})


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
    assert failed.description == "epoch log, epoch 3: The epoch log lacks epochs."


def test_the_audit_runs_the_doctor(worlds: SimulatedWorlds) -> None:
    found = {one.check_name: one for one in ran(worlds, "audit", {}).get_asset_check_evaluations()}
    doctor = found["doctor"]
    assert not doctor.passed
    assert doctor.severity is dg.AssetCheckSeverity.WARN
    assert doctor.metadata["finding_count"].value == 1


def test_the_job_repairs_only_when_told_so(worlds: SimulatedWorlds) -> None:
    planned = repair(worlds)
    [output] = [e for e in planned.all_events if e.event_type_value == "STEP_OUTPUT"]
    plan = output.step_output_data.metadata["plan"]
    assert isinstance(plan, dg.TableMetadataValue)
    assert [record.data["step"] for record in plan.records] == ["SetAsideSnapshots"]
    assert "finding_count" in output.step_output_data.metadata
    assert manifest_key(3) in worlds.objects.objects
    result = repair(worlds, dry_run=False)
    assert result.success
    with worlds.open() as world:
        assert kinds(world) == []
        lines = world.store.journal.of(CLICKS, run=result.run_id)
    assert [(line.playbook, line.step, line.phase.value) for line in lines] == [
        ("repair", "SetAsideSnapshots", "intent"),
        ("repair", "SetAsideSnapshots", "done"),
    ]
