"""Great Expectations suites as asset checks, on a real Delta table."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from holdfast.assets.expectations import validate
from holdfast.orchestration.definitions import definitions_of
from tests.fakes.worlds import CLICKS, simulated_worlds
from tests.support import suites
from tests.support.delta_tables import a_commit, a_table, words

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
    result = validate(frame(*rows), suites.words())
    assert (result.passed, result.severity) == (passed, severity)
    assert result.metadata["rows_validated"].value == len(rows)


def test_what_failed_is_named_with_its_column() -> None:
    result = validate(frame(("anchor", 0)), suites.words())
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
    worlds = simulated_worlds(tmp_path, expectations="tests.support.suites:words")
    with worlds.open() as world:
        definitions = definitions_of(world.config, worlds)
        path = world.config.table_path(CLICKS)

    def expectations() -> dg.AssetCheckEvaluation:
        result = definitions.resolve_job_def("audit").execute_in_process(raise_on_error=False)
        found = {one.check_name: one for one in result.get_asset_check_evaluations()}
        return found["expectations"]

    assert expectations().description == "there is no output yet"
    a_table(path)
    a_commit(path, 0, words(3))
    good = expectations()
    assert good.passed
    assert good.metadata["files_validated"].value == 1
    a_commit(path, 1, words(3, first=0))
    assert not expectations().passed
