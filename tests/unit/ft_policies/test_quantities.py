"""Quantities as text: at most three significant digits, one unit."""

import pytest

from holdfast.ft_policies import quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (quantities.number(0), "0"),
        (quantities.number(0.0412345), "0.0412"),
        (quantities.number(1.4), "1.4"),
        (quantities.number(99.96), "100"),
        (quantities.number(100), "100"),
        (quantities.number(1234.5), "1,234"),
        (quantities.number(-12.345), "-12.3"),
        (quantities.age(3), "3 s"),
        (quantities.age(119), "119 s"),
        (quantities.age(120), "2 min"),
        (quantities.age(3 * 86400), "3 d"),
        (quantities.size(999), "999 B"),
        (quantities.size(1_234_567), "1.23 MB"),
        (quantities.size(None), "-"),
        (quantities.seconds(0.0004), "0 s"),
        (quantities.seconds(0.04), "0.04 s"),
        (quantities.seconds(3.1415), "3.14 s"),
        (quantities.seconds(95.44), "95.4 s"),
        (quantities.seconds(None), "-"),
        (quantities.seconds(float("inf")), "inf s"),
        (quantities.plural(1, "epoch"), "1 epoch"),
        (quantities.plural(2_000, "row"), "2,000 rows"),
    ],
)
def test_a_quantity_has_at_most_three_significant_digits_and_a_unit(
    text: str, expected: str
) -> None:
    assert text == expected
