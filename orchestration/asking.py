"""What people ask for in words, understood or refused with what to do instead."""

from difflib import get_close_matches

from ft_policies.doctor.findings import RepairKind
from ft_policies.errors import PermanentError
from ft_policies.tiers import Tier

ALL = "all"


def tier_named(text: str) -> Tier:
    """The tier of this name."""
    word = text.strip().lower().replace("-", "_")
    if word in list(Tier):
        return Tier(word)
    near = get_close_matches(word, list(Tier), n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise PermanentError(
        f"there is no tier {text!r}", hint=f"{meant}The tiers are {', '.join(Tier)}"
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
