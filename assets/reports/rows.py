"""Values as report tables carry them."""

from math import isfinite


def finite(value: float) -> float | None:
    """A figure, or nothing where it is infinite: not known, and no JSON value either."""
    return value if isfinite(value) else None
