"""What must be true of every row that the energy queries put out.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.expectations import Expectation

PLUG = ("house_id", "household_id", "plug_id")


def completion() -> "ExpectationSuite":
    """No gaps, loads that are not negative, and readings that stand for some time."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="energy_completion",
        expectations=[
            *_whole("timestamp", *PLUG, "load", "seconds", "synthetic"),
            gxe.ExpectColumnValuesToBeBetween(column="load", min_value=0),
            gxe.ExpectColumnValuesToBeBetween(column="seconds", min_value=1),
        ],
    )


def prediction() -> "ExpectationSuite":
    """Of plugs and houses, for slices that lie ahead, and never negative."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="energy_prediction",
        expectations=[
            *_whole(
                "timestamp",
                "window_seconds",
                "slice_start",
                "level",
                "house_id",
                "load",
                may_be_null=("household_id", "plug_id"),
            ),
            gxe.ExpectColumnValuesToBeInSet(column="level", value_set=["plug", "house"]),
            gxe.ExpectColumnValuesToBeBetween(column="load", min_value=0),
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A="slice_start", column_B="timestamp"
            ),
        ],
    )


def outlier() -> "ExpectationSuite":
    """Ratios between 0 and 1, of houses that have plugs."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="energy_outlier",
        expectations=[
            *_whole("timestamp", "window_seconds", "house_id", "above", "plugs", "ratio"),
            gxe.ExpectColumnValuesToBeBetween(column="ratio", min_value=0, max_value=1),
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A="plugs", column_B="above", or_equal=True
            ),
        ],
    )


def _whole(*columns: str, may_be_null: Sequence[str] = ()) -> "list[Expectation]":
    """These columns and no others, and which of them have a value in every row."""
    from great_expectations import expectations as gxe

    return [
        gxe.ExpectTableColumnsToMatchSet(column_set=[*columns, *may_be_null], exact_match=True),
        *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in columns),
    ]
