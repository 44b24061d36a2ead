"""What must be true of every row that the click stream puts out.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

COLUMNS = ("at", "rank", "pattern", "count")


def top_patterns() -> "ExpectationSuite":
    """Columns, one holder of a place at a time, ranks from one, pages in a row, counts."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="click_stream_top_patterns",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(column_set=list(COLUMNS), exact_match=True),
            *(
                gxe.ExpectColumnValuesToNotBeNull(column=column)
                for column in ("at", "rank", "count")
            ),
            gxe.ExpectColumnValuesToBeBetween(column="rank", min_value=1),
            gxe.ExpectColumnValuesToBeBetween(column="count", min_value=0),
            gxe.ExpectCompoundColumnsToBeUnique(column_list=["at", "rank"]),
            gxe.ExpectColumnValuesToMatchRegex(column="pattern", regex=r"^\S+(?: > \S+)*$"),
        ],
    )
