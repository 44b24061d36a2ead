"""What must be true of every alarm of the card fraud query.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

COLUMNS = (
    "issuer", "card", "transaction_id", "event_time", "amount_cents",
    "previous_id", "previous_time", "distance_m",
)  # fmt: skip
HALF_ROUND_THE_EARTH_M = 20_015_115


def impossible_travel() -> "ExpectationSuite":
    """Columns, no gaps in them, places apart and both on Earth, card numbers of 16 digits."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="card_fraud_impossible_travel",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(column_set=list(COLUMNS), exact_match=True),
            *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in COLUMNS),
            gxe.ExpectColumnValuesToBeBetween(
                column="distance_m", min_value=1, max_value=HALF_ROUND_THE_EARTH_M
            ),
            gxe.ExpectColumnValuesToMatchRegex(column="card", regex=r"^\d{16}$"),
        ],
    )
