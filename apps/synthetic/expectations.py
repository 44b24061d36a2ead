"""What must be true of every row that the synthetic load puts out.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

COLUMNS = ("window_start", "window_end", "entry", "events", "checksum", "payload_bytes")


def load() -> "ExpectationSuite":
    """Columns, no gaps in them, counts of at least one, windows with a length."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="synthetic_load",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(column_set=list(COLUMNS), exact_match=True),
            *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in COLUMNS),
            gxe.ExpectColumnValuesToBeBetween(column="entry", min_value=0),
            gxe.ExpectColumnValuesToBeBetween(column="events", min_value=1),
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A="window_end", column_B="window_start"
            ),
        ],
    )
