"""What is wrong in a file that people wrote: where, which value, and what is allowed instead."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ft_policies.errors import PermanentError

_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")
_BOUNDS = {
    "greater_than": ("gt", "must be more than {:g}"),
    "greater_than_equal": ("ge", "must be at least {:g}"),
    "less_than": ("lt", "must be less than {:g}"),
    "less_than_equal": ("le", "must be at most {:g}"),
    "string_too_short": ("min_length", "must not be empty"),
    "string_too_long": ("max_length", "must have at most {} characters"),
}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "string": "text (put it in quotes)",
    "datetime": "a date and time such as 2026-01-31T12:00:00Z",
    "date": "a date such as 2026-01-31",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping of names to values",
    "model": "a mapping of fields",
    "invalid": "plain text, numbers, true, false, lists or mappings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake: its place, the field and the value as written, and what is allowed."""

    file: str
    line: int
    column: int
    field: str
    value: str | None
    message: str

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}:{self.column}", self.field, self.value]
        return ": ".join([part for part in parts if part] + [self.message])


class InvalidConfig(PermanentError):  # noqa: N818 - the word that people read
    """The files of a project hold mistakes; `problems` lists all of them."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(
            f"{count} in the configuration\n{lines}",
            hint="mend these lines; `holdfast check` looks at all files again",
        )
        self.problems = problems


def shown(value: Any) -> str:
    """A value as people wrote it, on one short line."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    text = _PASSWORD.sub(r"\1:***@", text)
    return text if len(text) <= 80 else text[:77] + "..."


def is_secret(field: str) -> bool:
    """Whether a field by this name may hold what must not be shown, even if it is no field at all."""
    return any(word in field.lower() for word in ("secret", "password", "token", "access_key"))


def suggestion(wrong: str, known: list[str]) -> str:
    """The nearest known name, or all of them."""
    nearest = get_close_matches(wrong, known, n=1)
    if nearest:
        return f"did you mean {nearest[0]}?"
    return f"known are {', '.join(sorted(known))}" if known else "there are none"


def sentence(kind: str, context: Mapping[str, Any], message: str) -> str:
    """Say in plain words what pydantic found."""
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return words.format(context[bound])
    if kind in ("literal_error", "enum"):
        return f"must be one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')}"
    if kind in ("relation", "quantity", "shape", "retention"):
        return message
    allowed = _KINDS.get(kind.partition("_")[0])
    return f"must be {allowed}" if allowed else message
