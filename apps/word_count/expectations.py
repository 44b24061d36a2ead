"""What must be true of every row that the word count puts out.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from typing import TYPE_CHECKING

from holdfast.apps.word_count.vocabulary import VOCABULARY

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

COLUMNS = ("window_start", "window_end", "word", "count")


def suite() -> "ExpectationSuite":
    """Columns, no gaps in them, counts of at least one, windows with a length, known words."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="word_count",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(column_set=list(COLUMNS), exact_match=True),
            *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in COLUMNS),
            gxe.ExpectColumnValuesToBeBetween(column="count", min_value=1),
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A="window_end", column_B="window_start"
            ),
            gxe.ExpectColumnValuesToBeInSet(column="word", value_set=list(VOCABULARY)),
        ],
    )


def lines() -> "ExpectationSuite":
    """The same columns, each word once a window, in lower case and without punctuation."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="word_count_lines",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(column_set=list(COLUMNS), exact_match=True),
            *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in COLUMNS),
            gxe.ExpectColumnValuesToBeBetween(column="count", min_value=1),
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A="window_end", column_B="window_start"
            ),
            gxe.ExpectCompoundColumnsToBeUnique(column_list=["window_start", "word"]),
            gxe.ExpectColumnValuesToMatchRegex(
                column="word", regex=r"^[^\WA-Z_]+(?:'[^\WA-Z_]+)*$"
            ),
        ],
    )
