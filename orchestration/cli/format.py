"""Quantities as people read them."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from holdfast.ft_policies.playbooks.recover.steps import switch_change
from holdfast.ft_policies.tiers import Tier

_BYTES = ("B", "kB", "MB", "GB", "TB")
_LEAST_SHARE = 0.005
NONE = "-"


def seconds(value: float | None) -> str:
    """A duration: 0.4 s, 12.3 s, 95 s."""
    if value is None:
        return NONE
    return f"{value:.1f} s" if value < 60 else f"{value:.0f} s"


def age(value: float | None) -> str:
    """How long ago, in one unit: 3 s, 12 min, 5 h, 9 d."""
    if value is None:
        return NONE
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{max(value, 0.0):.0f} s"


def proof(seconds_ago: float | None, took_seconds: float | None) -> str:
    """`2 h ago, in 31.0 s`; nothing if there was none."""
    return "" if seconds_ago is None else f"{age(seconds_ago)} ago, in {seconds(took_seconds)}"


def size(value: float | None) -> str:
    """Bytes in the largest unit that keeps a digit before the point."""
    if value is None:
        return NONE
    amount = float(value)
    for unit in _BYTES:
        if amount < 1000 or unit == _BYTES[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def count(value: float | None) -> str:
    """A number with its thousands apart."""
    return NONE if value is None else f"{value:,.0f}"


def predicted(value: float) -> str:
    """A duration that may be unknown, which is infinite."""
    return seconds(value) if isfinite(value) else "unknown"


def interval(value: float) -> str:
    """How often, or that it does not go by time, which is infinite."""
    return f"every {value:g} s" if isfinite(value) else "not by time"


def money(value: float) -> str:
    """An amount, small ones with the digits that matter."""
    return f"{value:.2f}" if value >= 10 else f"{value:.4f}"


def share(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.0f} %"


def tiers(shares: Mapping[Tier, float]) -> str:
    """`passive_standby_hot 62 %`, a line each, the longest first; below half a percent not worth a word."""
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return "\n".join(f"{tier} {share(part)}" for tier, part in ranked if part >= _LEAST_SHARE)


def plural(number: int, one: str, many: str = "") -> str:
    """`1 epoch`, `2 epochs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def turn(detail: Mapping[str, Any]) -> str:
    """`receive on`, for a step that turns a switch; nothing for any other."""
    return str(switch_change(detail) or "")
