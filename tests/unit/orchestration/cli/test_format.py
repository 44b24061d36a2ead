"""Quantities as text: at most three significant digits, one unit."""

from math import inf

import pytest

from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.cli import format as fmt


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (fmt.number(0), "0"),
        (fmt.number(0.0412345), "0.0412"),
        (fmt.number(1.4), "1.4"),
        (fmt.number(99.96), "100"),
        (fmt.number(100), "100"),
        (fmt.number(1234.5), "1,234"),
        (fmt.number(-12.345), "-12.3"),
        (fmt.age(3), "3 s"),
        (fmt.age(119), "119 s"),
        (fmt.age(120), "2 min"),
        (fmt.age(3 * 86400), "3 d"),
        (fmt.size(999), "999 B"),
        (fmt.size(1_234_567), "1.23 MB"),
        (fmt.size(None), "-"),
        (fmt.seconds(0.0004), "0 s"),
        (fmt.seconds(0.04), "0.04 s"),
        (fmt.seconds(3.1415), "3.14 s"),
        (fmt.seconds(95.44), "95.4 s"),
        (fmt.seconds(None), "-"),
        (fmt.plural(1, "epoch"), "1 epoch"),
        (fmt.plural(2_000, "row"), "2,000 rows"),
        (fmt.money(0.04123), "0.0412"),
        (fmt.money(123.456), "123"),
        (fmt.share(0.617), "62 %"),
        (fmt.prediction(inf), "unknown"),
        (fmt.interval(2.5), "every 2.5 s"),
        (fmt.interval(inf), "not by time"),
    ],
)
def test_a_quantity_has_at_most_three_significant_digits_and_a_unit(
    text: str, expected: str
) -> None:
    assert text == expected


def test_tiers_are_listed_by_share_without_the_smallest() -> None:
    shares = {Tier.DEPLOYED: 0.004, Tier.ACTIVE_STANDBY: 0.25, Tier.PASSIVE_REPLICATION: 0.746}
    assert fmt.tiers(shares) == "passive_replication 75 %\nactive_standby 25 %"
