"""The expectations of the card fraud query hold for its alarms and for nothing else."""

import pandas as pd
import pytest

from holdfast.apps.card_fraud.expectations import impossible_travel
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

GOOD = pd.DataFrame(
    {
        "issuer": ["bank_01", "bank_02"],
        "card": ["4000000000000001", "4000000000000002"],
        "transaction_id": [7, 8],
        "event_time": pd.to_datetime(["2026-01-01T00:00:00Z"] * 2),
        "amount_cents": [100, 250],
        "previous_id": [3, 4],
        "previous_time": pd.to_datetime(["2026-01-01T00:00:10Z"] * 2),
        "distance_m": [900_000, 20_000],
    }
)


def failed(frame: pd.DataFrame) -> list[str]:
    return failed_kinds(frame, impossible_travel())


def test_good_output_meets_them_and_so_does_none() -> None:
    assert failed(GOOD) == []
    assert failed(GOOD.iloc[:0]) == []


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (GOOD.assign(distance_m=[0, 20_000]), "column_values_to_be_between"),
        (GOOD.assign(distance_m=[30_000_000, 20_000]), "column_values_to_be_between"),
        (GOOD.assign(card=["4000000000000001", "400"]), "column_values_to_match_regex"),
        (GOOD.assign(issuer=["bank_01", None]), "column_values_to_not_be_null"),
        (GOOD.assign(extra=1), "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(frame: pd.DataFrame, kind: str) -> None:
    assert failed(frame) == [kind]
