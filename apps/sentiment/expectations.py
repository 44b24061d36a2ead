"""What must be true of every row that the sentiment query puts out.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

COLUMNS = ("window_start", "window_end", "keyword", "tweets", "positive", "negative", "score")


def windowed() -> "ExpectationSuite":
    """Columns, no gaps, a keyword once a window, no more moods than tweets, windows' lengths."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="sentiment_windowed",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(column_set=list(COLUMNS), exact_match=True),
            *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in COLUMNS),
            gxe.ExpectColumnValuesToBeBetween(column="tweets", min_value=1),
            *(
                gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                    column_A="tweets", column_B=mood, or_equal=True
                )
                for mood in ("positive", "negative")
            ),
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A="window_end", column_B="window_start"
            ),
            gxe.ExpectCompoundColumnsToBeUnique(column_list=["window_start", "keyword"]),
        ],
    )
