"""A lease without a control store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FixedToken:
    """What is written under it always carries the same token."""

    token: int = 1
