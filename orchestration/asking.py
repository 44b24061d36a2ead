"""What people ask for in words, understood or refused with what to do instead."""

from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from ft_policies.doctor.findings import RepairKind
from ft_policies.drill import Blow
from ft_policies.errors import PermanentError
from ft_policies.migration import Protocol
from ft_policies.tiers import Tier

Named = TypeVar("Named", bound=StrEnum)
ALL = "all"


def tier_named(text: str) -> Tier:
    """The tier of this name."""
    return _named(Tier, "tier", text)


def blow_named(text: str) -> Blow:
    """The blow of this name."""
    return _named(Blow, "blow", text)


def protocol_named(text: str) -> Protocol:
    """The protocol of this name."""
    return _named(Protocol, "protocol", text)


def _named(kind: type[Named], word: str, text: str) -> Named:
    meant = text.strip().lower().replace("-", "_")
    if meant in list(kind):
        return kind(meant)
    near = get_close_matches(meant, list(kind), n=1)
    perhaps = f"did you mean {near[0]}? " if near else ""
    raise PermanentError(
        f"there is no {word} {text!r}", hint=f"{perhaps}The {word}s are {', '.join(kind)}"
    )


def repair_named(text: str) -> RepairKind | None:
    """The repair of this name; `None` for `all`, which is the best one for each finding."""
    word = text.strip().lower().replace("-", "_")
    if word == ALL:
        return None
    if word in list(RepairKind):
        return RepairKind(word)
    near = get_close_matches(word, [ALL, *RepairKind], n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise PermanentError(
        f"there is no repair {text!r}",
        hint=f"{meant}The repairs are {ALL}, {', '.join(RepairKind)}",
    )
