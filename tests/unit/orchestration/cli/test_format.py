"""Amounts, shares, intervals and predictions as text."""

from math import inf

import pytest

from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.cli import format as fmt


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (fmt.money(0.04123), "0.0412"),
        (fmt.money(123.456), "123"),
        (fmt.share(0.617), "62 %"),
        (fmt.prediction(inf), "unknown"),
        (fmt.interval(2.5), "every 2.5 s"),
        (fmt.interval(inf), "not by time"),
    ],
)
def test_an_amount_has_at_most_three_significant_digits(text: str, expected: str) -> None:
    assert text == expected


def test_tiers_are_listed_by_share_without_the_smallest() -> None:
    shares = {Tier.DEPLOYED: 0.004, Tier.ACTIVE_STANDBY: 0.25, Tier.PASSIVE_REPLICATION: 0.746}
    assert fmt.tiers(shares) == "passive_replication 75 %\nactive_standby 25 %"
