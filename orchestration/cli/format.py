"""Quantities as text, at most three significant digits with a unit, and the lists that options take."""

from collections.abc import Mapping
from math import floor, inf, isfinite, log10
from pathlib import Path
from typing import Any

import typer

from holdfast.ft_policies.playbooks.recover.steps import switch_change
from holdfast.ft_policies.tiers import Tier

BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
MIN_SHOWN_SHARE = 0.005
MAX_LIST_LENGTH = 50
NONE = "-"


def number(value: float, *, max_decimals: int = 6) -> str:
    """`0.0412`, `1.4`, `12.3`, `123`, `1,234`: three significant digits, whole from 100 on."""
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


def proof(seconds_ago: float | None, took_seconds: float | None) -> str:
    """`2 h ago, in 31.4 s`; empty for a snapshot that was never proven."""
    return "" if seconds_ago is None else f"{age(seconds_ago)} ago, in {seconds(took_seconds)}"


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


def prediction(value: float) -> str:
    """A predicted duration; an infinite one is unknown."""
    return seconds(value) if isfinite(value) else "unknown"


def interval(value: float) -> str:
    """`every 10 s`; an infinite interval means that no timer is set."""
    return f"every {number(value)} s" if isfinite(value) else "not by time"


def money(value: float) -> str:
    """An amount without its currency."""
    return number(value)


def share(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.0f} %"


def tiers(shares: Mapping[Tier, float]) -> str:
    """`passive_standby_hot 62 %`, one line per tier, the largest first; shares below 0.5 % are left out."""
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return "\n".join(f"{tier} {share(part)}" for tier, part in ranked if part >= MIN_SHOWN_SHARE)


def plural(quantity: int, singular: str) -> str:
    """`1 epoch`, `2,000 epochs`."""
    return f"{quantity:,} {singular}{'' if quantity == 1 else 's'}"


def turn(detail: Mapping[str, Any]) -> str:
    """`receive on`, for a step that turns a switch; empty for any other."""
    return str(switch_change(detail) or "")


def parse_seconds(text: str, option: str, *, least: float = 0.0) -> tuple[float, ...]:
    """Parse `0,2.5,10`: each number once, ascending. A list that cannot be used is wrong usage."""
    try:
        numbers = sorted({float(word) for word in text.split(",")})
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not a list of seconds such as 0,2.5,10", param_hint=option
        ) from error
    if not all(least <= value < inf for value in numbers):
        raise typer.BadParameter(
            f"{text!r}: each number must be finite and at least {least:g}", param_hint=option
        )
    if len(numbers) > MAX_LIST_LENGTH:
        raise typer.BadParameter(
            f"{len(numbers)} numbers: at most {MAX_LIST_LENGTH} are allowed", param_hint=option
        )
    return tuple(numbers)


def require_suffix(path: Path, *suffixes: str) -> None:
    """Refuse a plot in an unsupported format before anything is computed for it."""
    if path.suffix.lower() not in suffixes:
        raise typer.BadParameter(
            f"{path.name} cannot be drawn: the file name must end with {', '.join(suffixes)}",
            param_hint="--plot",
        )
