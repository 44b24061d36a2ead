"""A misspelt word in the launchpad is refused: where Dagster can offer choices before the run, otherwise by the run."""

from pathlib import Path

import dagster as dg
import pytest

from holdfast.orchestration.definitions import build_definitions
from tests.fakes.projects import simulated_projects


@pytest.mark.parametrize(
    ("job", "op", "field", "word", "choice"),
    [
        ("switch_tier", "switch", "tier", "active_stanby", "active_standby"),
        ("migrate_stream", "migrate", "protocol", "repley", "replay"),
        ("drill_stream", "drill", "fault", "kil", "kill"),
    ],
)
def test_a_misspelt_choice_is_refused_before_the_run(
    tmp_path: Path, job: str, op: str, field: str, word: str, choice: str
) -> None:
    projects = simulated_projects(tmp_path)
    with projects.open() as project:
        definition = build_definitions(project.config, projects).resolve_job_def(job)

    def config(value: str) -> dict[str, object]:
        return {"ops": {op: {"config": {"stream": "clicks", field: value}}}}

    assert dg.validate_run_config(definition, config(choice))
    with pytest.raises(dg.DagsterInvalidConfigError, match=f"not in enum type .*Choice got {word}"):
        dg.validate_run_config(definition, config(word))


@pytest.mark.parametrize(
    ("job", "op"),
    [
        ("start_stream", "start"),
        ("stop_stream", "stop"),
        ("migrate_stream", "migrate"),
        ("restore_stream", "restore"),
        ("repair_stream", "repair"),
    ],
)
def test_the_launchpad_offers_the_declared_streams(tmp_path: Path, job: str, op: str) -> None:
    projects = simulated_projects(tmp_path, "clicks", "mro")
    (projects.root / "configs" / "streams" / "faulty.yaml").write_text("name: faulty\napp: 7\n")
    with projects.open() as project:
        definition = build_definitions(project.config, projects).resolve_job_def(job)

    def config(stream: str) -> dict[str, object]:
        return {"ops": {op: {"config": {"stream": stream}}}}

    for stream in ("clicks", "mro", "faulty"):
        assert dg.validate_run_config(definition, config(stream))
    with pytest.raises(dg.DagsterInvalidConfigError, match="got clikcs"):
        dg.validate_run_config(definition, config("clikcs"))


@pytest.mark.parametrize(
    ("job", "op"), [("recover_stream", "recover"), ("prove_snapshot", "prove")]
)
def test_a_run_that_a_sensor_may_request_refuses_a_misspelt_stream_with_the_declared_ones(
    tmp_path: Path, job: str, op: str
) -> None:
    projects = simulated_projects(tmp_path)
    with projects.open() as project:
        definition = build_definitions(project.config, projects).resolve_job_def(job)
    config = {"ops": {op: {"config": {"stream": "clikcs"}}}}
    result = definition.execute_in_process(run_config=config, raise_on_error=False)
    [failure] = result.get_step_failure_events()
    details = failure.step_failure_data.user_failure_data
    assert details is not None
    assert details.description == "no stream is called clikcs; declared are clicks"
    assert "clicks" in str(details.metadata["hint"].value)
