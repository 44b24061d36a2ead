"""The expectations of the synthetic load hold for its output and for nothing else."""

import great_expectations as gx
import pandas as pd
import pytest

from apps.synthetic.expectations import load

pytestmark = pytest.mark.integration

GOOD = pd.DataFrame(
    {
        "window_start": pd.to_datetime(["2026-01-01T00:00:00Z"] * 2),
        "window_end": pd.to_datetime(["2026-01-01T00:01:00Z"] * 2),
        "entry": [0, 999],
        "events": [7, 1],
        "checksum": [12_345, 0],
        "payload_bytes": [256, 256],
    }
)


def failed(frame: pd.DataFrame) -> list[str]:
    """The kinds of expectation that a frame does not meet."""
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("frames").add_dataframe_asset("frame")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    return sorted(
        one.expectation_config.type.removeprefix("expect_")
        for one in batch.validate(load()).results
        if not one.success and one.expectation_config
    )


def test_good_output_meets_them_and_so_does_none() -> None:
    assert failed(GOOD) == []
    assert failed(GOOD.iloc[:0]) == []


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (GOOD.assign(events=[0, 1]), "column_values_to_be_between"),
        (GOOD.assign(entry=[-1, 1]), "column_values_to_be_between"),
        (GOOD.assign(checksum=[1.0, None]), "column_values_to_not_be_null"),
        (
            GOOD.assign(window_end=GOOD["window_start"]),
            "column_pair_values_a_to_be_greater_than_b",
        ),
        (GOOD.assign(extra=1), "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(frame: pd.DataFrame, kind: str) -> None:
    assert failed(frame) == [kind]
