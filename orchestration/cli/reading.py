"""Quantities as people write them on the command line; what is none is wrong usage."""

from math import inf
from pathlib import Path

import typer

MOST_NUMBERS = 50


def seconds(text: str, option: str, *, least: float = 0.0) -> tuple[float, ...]:
    """The numbers of `0,2.5,10`: each once, the shortest first."""
    try:
        found = sorted({float(word) for word in text.split(",")})
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not a list of seconds such as 0,2.5,10", param_hint=option
        ) from error
    if not all(least <= one < inf for one in found):
        raise typer.BadParameter(
            f"{text!r}: each number is at least {least:g} and not infinite", param_hint=option
        )
    if len(found) > MOST_NUMBERS:
        raise typer.BadParameter(
            f"{len(found)} numbers, and {MOST_NUMBERS} at most", param_hint=option
        )
    return tuple(found)


def demand_ending(path: Path, *endings: str) -> None:
    """Refuse a plot in a format that is not drawn, before anybody waits for it."""
    if path.suffix.lower() not in endings:
        known = ", ".join(endings)
        raise typer.BadParameter(
            f"{path.name} cannot be drawn: the name of a plot ends with {known}",
            param_hint="--plot",
        )
