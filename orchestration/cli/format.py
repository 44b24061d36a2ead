"""What commands show: quantities as text, and the lists that options take."""

from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any

import typer

from holdfast.ft_policies.playbooks.recover.steps import switch_change
from holdfast.ft_policies.quantities import NONE, age, count, number, plural, seconds, size
from holdfast.ft_policies.tiers import Tier

__all__ = [
    "MAX_LIST_LENGTH",
    "MIN_SHOWN_SHARE",
    "NONE",
    "age",
    "count",
    "interval",
    "money",
    "number",
    "parse_seconds",
    "plural",
    "prediction",
    "proof",
    "require_suffix",
    "seconds",
    "share",
    "size",
    "tiers",
    "turn",
]

MIN_SHOWN_SHARE = 0.005
MAX_LIST_LENGTH = 50


def proof(seconds_ago: float | None, took_seconds: float | None) -> str:
    """`2 h ago, in 31.4 s`; empty for a snapshot that was never proven."""
    return "" if seconds_ago is None else f"{age(seconds_ago)} ago, in {seconds(took_seconds)}"


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
