"""Great Expectations suites as asset checks, on a real Delta table."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from holdfast.assets.expectations import validate
from holdfast.orchestration.definitions import build_definitions
from tests.builders.delta_tables import a_commit, a_table, words
from tests.builders.streams import CLICKS
from tests.fakes.projects import simulated_projects
from tests.live.expectations import words as word_suite

pytestmark = pytest.mark.integration


def frame(*rows: tuple[str, int]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["word", "count"])


@pytest.mark.parametrize(
    ("rows", "passed", "severity"),
    [
        ([("anchor", 1)], True, dg.AssetCheckSeverity.WARN),
        ([], True, dg.AssetCheckSeverity.WARN),
        ([("spam", 1)], False, dg.AssetCheckSeverity.WARN),
        ([("anchor", 0)], False, dg.AssetCheckSeverity.ERROR),
        ([("spam", 0)], False, dg.AssetCheckSeverity.ERROR),
    ],
)
def test_the_worst_expectation_that_fails_sets_the_severity(
    rows: list[tuple[str, int]],
    passed: bool,  # noqa: FBT001
    severity: dg.AssetCheckSeverity,
) -> None:
    result = validate(frame(*rows), word_suite())
    assert (result.passed, result.severity) == (passed, severity)
    assert result.metadata["rows_validated"].value == len(rows)


def test_what_failed_is_named_with_its_column() -> None:
    result = validate(frame(("anchor", 0)), word_suite())
    failed = result.metadata["failed"]
    assert isinstance(failed, dg.JsonMetadataValue)
    assert failed.value == [
        {
            "expectation": "expect_column_values_to_be_between",
            "column": "count",
            "min_value": 1,
        }
    ]


def test_a_declared_suite_is_run_on_the_output_table(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, expectations="tests.live.expectations:words")
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
        path = project.config.table_path(CLICKS)

    def expectations() -> dg.AssetCheckEvaluation:
        result = definitions.resolve_job_def("audit").execute_in_process(raise_on_error=False)
        evaluations = {
            evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()
        }
        return evaluations["expectations"]

    assert expectations().description == "no output yet"
    a_table(path)
    a_commit(path, 0, words(3))
    good = expectations()
    assert good.passed
    assert good.metadata["files_validated"].value == 1
    a_commit(path, 1, words(3, first=0))
    assert not expectations().passed
