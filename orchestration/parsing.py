"""Words from the command line and from Dagster's launchpad, parsed or refused with a suggestion."""

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
    """The member of this value, whatever its case and hyphens; refused with the nearest one.

    `others` are words that the caller knows beside the members, to be offered with them.
    """
    noun, offered = noun or kind.__name__.lower(), [*others, *kind]
    value = _normalise(text)
    if value in list(kind):
        return kind(value)
    near = get_close_matches(value, offered, n=1)
    suggestion = f"did you mean {near[0]}? " if near else ""
    raise PermanentError(
        f"there is no {noun} {text!r}", hint=f"{suggestion}The {noun}s are {', '.join(offered)}"
    )


def parse_repair(text: str) -> RepairKind | None:
    """The repair of this name; `None` for `all`, which is the best one for each finding."""
    if _normalise(text) == ALL:
        return None
    return parse_enum(RepairKind, text, noun="repair", others=(ALL,))


def _normalise(text: str) -> str:
    return text.strip().lower().replace("-", "_")
