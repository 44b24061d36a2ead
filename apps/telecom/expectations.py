"""What must be true of every row that the telecom queries put out.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.apps.telecom.oracle import CONSUMPTION, HISTOGRAM, LISTED, MOBILITY, OVERLAP

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite


def high_mobility() -> "ExpectationSuite":
    """A pair is in the order of time, and its speed is positive."""
    from great_expectations import expectations as gxe

    return _suite(
        "high_mobility",
        MOBILITY,
        _not_after("first_time", "second_time"),
        gxe.ExpectColumnValuesToBeBetween(column="speed", min_value=0, strict_min=True),
    )


def overlapping_calls() -> "ExpectationSuite":
    """The second call begins during the first."""
    return _suite(
        "overlapping_calls",
        OVERLAP,
        _not_after("first_start", "second_start"),
        _not_after("second_start", "first_end"),
        _not_after("second_start", "second_end"),
    )


def blacklist() -> "ExpectationSuite":
    """A listed phone is one of the two sides, and durations and prices are not negative."""
    from great_expectations import expectations as gxe

    return _suite(
        "blacklist",
        LISTED,
        gxe.ExpectColumnValuesToBeInSet(column="side", value_set=["caller", "callee"]),
        gxe.ExpectColumnValuesToBeBetween(column="duration", min_value=0),
        gxe.ExpectColumnValuesToBeBetween(column="price", min_value=0),
    )


def consumption_control() -> "ExpectationSuite":
    """Windows have a length, and a caller is in one of them once, with at least one call."""
    return _suite("consumption_control", CONSUMPTION, *_counts("calls", each=["caller"]))


def calls_histogram() -> "ExpectationSuite":
    """Windows have a length, and a number of calls is in one of them once, with some callers."""
    return _suite("calls_histogram", HISTOGRAM, *_counts("callers", each=["calls"]))


def _suite(name: str, columns: Mapping[str, Any], *more: Any) -> "ExpectationSuite":
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name=f"telecom_{name}",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(column_set=list(columns), exact_match=True),
            *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in columns),
            *more,
        ],
    )


def _counts(count: str, each: list[str]) -> list[Any]:
    from great_expectations import expectations as gxe

    return [
        gxe.ExpectColumnValuesToBeBetween(column=count, min_value=1),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="window_end", column_B="window_start"),
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["window_start", *each]),
    ]


def _not_after(earlier: str, later: str) -> Any:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A=later, column_B=earlier, or_equal=True
    )
