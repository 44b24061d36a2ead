"""What people ask for in words, understood or refused with what to do instead."""

from difflib import get_close_matches

from ft_policies.errors import PermanentError
from ft_policies.tiers import Tier


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
