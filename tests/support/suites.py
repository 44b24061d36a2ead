"""Great Expectations suites that tests declare."""

from great_expectations import ExpectationSuite, expectations as gxe
from great_expectations.expectations.metadata_types import FailureSeverity


def words() -> ExpectationSuite:
    """Counts are above zero, which matters; words are known, which is nice."""
    return ExpectationSuite(
        name="words",
        expectations=[
            gxe.ExpectColumnValuesToBeBetween(
                column="count", min_value=1, severity=FailureSeverity.CRITICAL
            ),
            gxe.ExpectColumnValuesToBeInSet(
                column="word", value_set=["anchor"], severity=FailureSeverity.WARNING
            ),
        ],
    )
