"""What must be true of every list that the taxi queries put out.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.expectations import Expectation

PLACES = range(1, 11)
TIMES = ("pickup_datetime", "dropoff_datetime")
CELL_OF_300 = r"^(?:[1-9]\d?|[12]\d\d|300)\.(?:[1-9]\d?|[12]\d\d|300)$"
CELL_OF_600 = r"^(?:[1-9]\d?|[1-5]\d\d|600)\.(?:[1-9]\d?|[1-5]\d\d|600)$"


def frequent_routes() -> "ExpectationSuite":
    """Times in order, and ten routes between cells of the grid, of which the last may be missing."""
    from great_expectations import ExpectationSuite, expectations as gxe

    starts, ends = ([f"{end}_cell_id_{n}" for n in PLACES] for end in ("start", "end"))
    routes = [name for pair in zip(starts, ends, strict=True) for name in pair]
    return ExpectationSuite(
        name="taxi_frequent_routes",
        expectations=[
            *_times(*routes),
            gxe.ExpectColumnValuesToNotBeNull(column=starts[0]),
            *(
                gxe.ExpectColumnValuesToMatchRegex(column=name, regex=CELL_OF_300)
                for name in routes
            ),
        ],
    )


def profitable_areas() -> "ExpectationSuite":
    """Times in order, and ten areas with at least one empty taxi, the more profitable ones first."""
    from great_expectations import ExpectationSuite, expectations as gxe

    cells = [f"profitable_cell_id_{n}" for n in PLACES]
    empty = [f"empty_taxis_in_cell_id_{n}" for n in PLACES]
    medians = [f"median_profit_in_cell_id_{n}" for n in PLACES]
    worth = [f"profitability_of_cell_{n}" for n in PLACES]
    return ExpectationSuite(
        name="taxi_profitable_areas",
        expectations=[
            *_times(*cells, *empty, *medians, *worth),
            *(gxe.ExpectColumnValuesToMatchRegex(column=name, regex=CELL_OF_600) for name in cells),
            *(gxe.ExpectColumnValuesToBeBetween(column=name, min_value=1) for name in empty),
            *(gxe.ExpectColumnValuesToBeBetween(column=name, min_value=0) for name in medians),
            *(
                gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                    column_A=better,
                    column_B=worse,
                    or_equal=True,
                    ignore_row_if="either_value_is_missing",
                )
                for better, worse in pairwise(worth)
            ),
        ],
    )


def _times(*others: str) -> "list[Expectation]":
    """Exactly these columns, and two times that are there and in order."""
    from great_expectations import expectations as gxe

    return [
        gxe.ExpectTableColumnsToMatchSet(column_set=[*TIMES, *others], exact_match=True),
        *(gxe.ExpectColumnValuesToNotBeNull(column=name) for name in TIMES),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="dropoff_datetime", column_B="pickup_datetime", or_equal=True
        ),
    ]
