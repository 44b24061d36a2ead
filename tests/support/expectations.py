"""Which expectations of a suite a frame does not meet."""

import great_expectations as gx
import pandas as pd


def failed_kinds(frame: pd.DataFrame, suite: gx.ExpectationSuite) -> list[str]:
    """The kinds of those that it does not meet, in the order of their names."""
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("frames").add_dataframe_asset("frame")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    return sorted(
        one.expectation_config.type.removeprefix("expect_")
        for one in batch.validate(suite).results
        if not one.success and one.expectation_config
    )
