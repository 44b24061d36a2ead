"""Suites that tests declare, and which of its expectations a frame does not meet."""

import great_expectations as gx
import pandas as pd
from great_expectations import ExpectationSuite, expectations as gxe
from great_expectations.expectations.metadata_types import FailureSeverity


def failed_kinds(frame: pd.DataFrame, suite: gx.ExpectationSuite) -> list[str]:
    """The kinds of those that it does not meet, in the order of their names."""
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("frames").add_dataframe_asset("frame")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    return sorted(
        result.expectation_config.type.removeprefix("expect_")
        for result in batch.validate(suite).results
        if not result.success and result.expectation_config
    )


def words() -> ExpectationSuite:
    """Counts are above zero, which matters; words are known, which is nice."""
    return ExpectationSuite(
        name="words",
        expectations=[
            gxe.ExpectColumnValuesToBeBetween(
                column="count", min_value=1, severity=FailureSeverity.CRITICAL
            ),
            gxe.ExpectColumnValuesToBeInSet(
                column="word", value_set=["anchor"], severity=FailureSeverity.WARNING
            ),
        ],
    )
