"""What a playbook will do if nothing else happens: its own next step, again and again."""

from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")
Step = TypeVar("Step")

MAX_STEPS = 30


def foresee(
    seen: Seen,
    next_step: Callable[[Seen], Step | None],
    after: Callable[[Seen, Step], Seen | None],
) -> list[Step]:
    """The steps from here on, each taken to succeed; one after which nothing is seen is the last."""
    steps: list[Step] = []
    now: Seen | None = seen
    while now is not None and (step := next_step(now)) is not None and len(steps) < MAX_STEPS:
        steps.append(step)
        now = after(now, step)
    return steps
