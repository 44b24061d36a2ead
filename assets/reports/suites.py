"""What must be true of the reports' tables, as Great Expectations suites.

Great Expectations is imported when a suite is asked for: it brings Spark, and takes seconds.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ft_policies.tiers import Tier

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.expectation import Expectation

Row: TypeAlias = Mapping[str, Any]
Judged: TypeAlias = "tuple[pd.DataFrame, ExpectationSuite]"

COVERED_SHARE = 0.95
SHARE_SLACK = 1e-6
MONEY_DIGITS = 9
LONG_OPEN_SECONDS = 3600.0
AMOUNTS = (
    "money", "money_if_active", "money_if_passive",
    "unit_hours", "unit_hours_if_active", "unit_hours_if_passive",
    "cpu_core_hours", "memory_gb_hours", "network_gb", "instance_hours", "requests",
)  # fmt: skip
RANKED = {"money": "money_per_hour", "all_costs": "units"}
"""The column by which a stream's tiers are ranked; the table has none for other weights."""


def costs(rows: Sequence[Row], *, ran: Collection[str]) -> Judged:
    """Shares add up, nothing is negative, who ran is there, and no tier costs more than the dearest.

    With started hours the last need not be: many short secondaries can cost more than one.
    """
    import pandas as pd
    from great_expectations import expectations as gxe

    frame = pd.DataFrame(list(rows))
    frame["shares"] = frame[[f"share_{tier}" for tier in Tier]].sum(axis="columns")
    excess = (frame["money"] - frame["money_if_active"]).round(MONEY_DIGITS)
    frame["excess_money"] = excess.where(~frame["started_hours"].astype(bool))
    return frame, _suite(
        "cost_report",
        gxe.ExpectColumnValuesToBeUnique(column="stream"),
        gxe.ExpectColumnDistinctValuesToContainSet(column="stream", value_set=sorted(ran)),
        gxe.ExpectColumnValuesToBeBetween(
            column="shares", min_value=1.0 - SHARE_SLACK, max_value=1.0 + SHARE_SLACK
        ),
        *(gxe.ExpectColumnValuesToBeBetween(column=name, min_value=0.0) for name in AMOUNTS),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="recoveries", column_B="misses", or_equal=True
        ),
        warnings=[gxe.ExpectColumnValuesToBeBetween(column="excess_money", max_value=0.0)],
    )


def decisions(rows: Sequence[Row]) -> Judged:
    """A reason for each, and figures that can be."""
    import pandas as pd
    from great_expectations import expectations as gxe

    return pd.DataFrame(list(rows)), _suite(
        "tier_decisions",
        gxe.ExpectColumnValueLengthsToBeBetween(column="reason", min_value=1),
        gxe.ExpectColumnValuesToBeInSet(column="tier", value_set=[tier.value for tier in Tier]),
        gxe.ExpectColumnValuesToBeBetween(column="predicted_seconds", min_value=0.0),
        gxe.ExpectColumnValuesToBeBetween(column="money_per_hour", min_value=0.0),
    )


def drills(rows: Sequence[Row]) -> Judged:
    """The objective was held whenever it was tried."""
    import pandas as pd
    from great_expectations import expectations as gxe

    return pd.DataFrame(list(rows)), _suite(
        "drills",
        gxe.ExpectColumnValuesToBeBetween(column="observed_seconds", min_value=0.0),
        warnings=[gxe.ExpectColumnValuesToBeInSet(column="held", value_set=[True])],
    )


def incidents(rows: Sequence[Row]) -> Judged:
    """What is closed says how it ended, and nothing stays open for long."""
    import pandas as pd
    from great_expectations import expectations as gxe

    frame = pd.DataFrame(list(rows))
    closed = frame["state"] == "closed"
    frame["outcome_if_closed"] = frame["outcome"].fillna("").where(closed)
    frame["open_seconds"] = frame["seconds"].where(~closed)
    return frame, _suite(
        "incidents",
        gxe.ExpectColumnValueLengthsToBeBetween(column="outcome_if_closed", min_value=1),
        warnings=[
            gxe.ExpectColumnValuesToBeBetween(column="open_seconds", max_value=LONG_OPEN_SECONDS)
        ],
    )


def journal(rows: Sequence[Row]) -> Judged:
    """What ended took its time, and nothing failed."""
    import pandas as pd
    from great_expectations import expectations as gxe

    frame = pd.DataFrame(list(rows))
    seconds = pd.to_numeric(frame["seconds"]).fillna(-1.0)
    frame["ended_seconds"] = seconds.where(frame["phase"] != "intent")
    return frame, _suite(
        "playbook_journal",
        gxe.ExpectColumnValuesToBeBetween(column="ended_seconds", min_value=0.0),
        warnings=[gxe.ExpectColumnValuesToNotBeInSet(column="phase", value_set=["failed"])],
    )


def recoveries(rows: Sequence[Row]) -> Judged:
    """Of whole recoveries few took longer than predicted."""
    import pandas as pd
    from great_expectations import expectations as gxe

    frame = pd.DataFrame([row for row in rows if row["step"] == "all"])
    return frame, _suite(
        "recovery_model",
        gxe.ExpectColumnValuesToBeBetween(column="observed_seconds", min_value=0.0),
        warnings=[
            gxe.ExpectColumnValuesToBeInSet(column="held", value_set=[True], mostly=COVERED_SHARE)
        ],
    )


def what_if(rows: Sequence[Row], *, weigh_by: Mapping[str, str]) -> Judged:
    """A longer objective is never dearer, as a stream weighs, and what holds is predicted to be in time."""
    import pandas as pd
    from great_expectations import expectations as gxe

    frame = pd.DataFrame(list(rows)).sort_values(["stream", "objective_seconds"])
    held = frame[frame["holds"].astype(bool)].copy()
    frame["rise"] = float("nan")
    for by, column in RANKED.items():
        alike = held["stream"].map(weigh_by) == by
        rises = held[alike].groupby("stream")[column].diff().round(MONEY_DIGITS)
        frame.loc[rises.index, "rise"] = rises
    frame["late_seconds"] = held["predicted_seconds"] - held["objective_seconds"]
    return frame, _suite(
        "what_if",
        gxe.ExpectColumnValuesToBeBetween(column="money_per_hour", min_value=0.0),
        gxe.ExpectColumnValuesToBeBetween(column="late_seconds", max_value=0.0),
        warnings=[gxe.ExpectColumnValuesToBeBetween(column="rise", max_value=0.0)],
    )


def _suite(
    name: str, *expectations: "Expectation", warnings: "Sequence[Expectation]" = ()
) -> "ExpectationSuite":
    """Those that must hold are critical; the warnings are nice to have."""
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.metadata_types import FailureSeverity

    for one in expectations:
        one.severity = FailureSeverity.CRITICAL
    for one in warnings:
        one.severity = FailureSeverity.WARNING
    return ExpectationSuite(name=name, expectations=[*expectations, *warnings])
