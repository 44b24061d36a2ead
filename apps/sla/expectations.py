"""What must be true of every verdict of the conformance query.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from typing import TYPE_CHECKING

from holdfast.apps.sla.vocabulary import VERDICTS

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

NEVER_NULL = ("service", "request_id", "verdict", "started_at")


def conformance() -> "ExpectationSuite":
    """Columns, known verdicts, and an end, after the start, of all requests that are not missing."""
    from great_expectations import ExpectationSuite, expectations as gxe

    return ExpectationSuite(
        name="sla_conformance",
        expectations=[
            gxe.ExpectTableColumnsToMatchSet(
                column_set=[*NEVER_NULL, "ended_at"], exact_match=True
            ),
            *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in NEVER_NULL),
            gxe.ExpectColumnValuesToBeInSet(column="verdict", value_set=list(VERDICTS)),
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A="ended_at",
                column_B="started_at",
                or_equal=True,
                ignore_row_if="either_value_is_missing",
            ),
        ],
    )
