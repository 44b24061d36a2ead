"""Quantities as text, for screens and logs: at most three significant digits, with a unit."""

from math import floor, isfinite, log10

BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
NONE = "-"


def number(value: float, *, max_decimals: int = 6) -> str:
    """`0.0412`, `1.4`, `12.3`, `123`, `1,234`: three significant digits, whole from 100 on; `inf` if it is that."""
    if not isfinite(value):
        return str(value)
    magnitude = floor(log10(abs(value))) if value else 0
    decimals = min(max(2 - magnitude, 0), max_decimals)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def seconds(value: float | None) -> str:
    """A duration to the millisecond: `0.041 s`, `12.3 s`, `95.4 s`."""
    return NONE if value is None else f"{number(value, max_decimals=3)} s"


def age(value: float | None) -> str:
    """A long duration in one unit: `3 s`, `12 min`, `5 h`, `9 d`."""
    if value is None:
        return NONE
    for unit_seconds, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if value >= 2 * unit_seconds:
            return f"{value / unit_seconds:.0f} {unit}"
    return f"{max(value, 0.0):.0f} s"


def size(value: float | None) -> str:
    """Bytes in the largest unit that keeps a digit before the point: `999 B`, `1.23 MB`."""
    if value is None:
        return NONE
    amount = float(value)
    for unit in BYTE_UNITS:
        if amount < 1000 or unit == BYTE_UNITS[-1]:
            return f"{number(amount)} {unit}"
        amount /= 1000
    raise AssertionError


def count(value: float | None) -> str:
    """A whole number with separated thousands."""
    return NONE if value is None else f"{value:,.0f}"


def plural(quantity: int, singular: str) -> str:
    """`1 epoch`, `2,000 epochs`."""
    return f"{quantity:,} {singular}{'' if quantity == 1 else 's'}"
