"""Parsing of words from the command line and from Dagster's launchpad; unknown ones are refused with a suggestion."""

from collections.abc import Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from holdfast.ft_policies.doctor.findings import RepairKind
from holdfast.ft_policies.errors import PermanentError

EnumT = TypeVar("EnumT", bound=StrEnum)
ALL = "all"


def parse_enum(
    kind: type[EnumT], text: str, *, noun: str = "", others: Sequence[str] = ()
) -> EnumT:
    """Parse a member by its value, ignoring case and hyphens; an error suggests the nearest one.

    `others` are words that the caller accepts besides the members: the error lists them, too.
    """
    noun, offered = noun or kind.__name__.lower(), [*others, *kind]
    value = _normalise(text)
    if value in list(kind):
        return kind(value)
    near = get_close_matches(value, offered, n=1)
    suggestion = f"did you mean {near[0]}? " if near else ""
    raise PermanentError(
        f"there is no {noun} {text!r}", hint=f"{suggestion}choose one of {', '.join(offered)}"
    )


def parse_repair(text: str) -> RepairKind | None:
    """Parse the name of a repair; `None` for `all`, which is the best repair for each finding."""
    if _normalise(text) == ALL:
        return None
    return parse_enum(RepairKind, text, noun="repair", others=(ALL,))


def _normalise(text: str) -> str:
    return text.strip().lower().replace("-", "_")
