"""How Dagster code gets at a project: a resource that opens its world for a while.

Nothing is opened when definitions load, and nothing is kept between ticks or runs: a control store
that was away, or a declaration that was edited, is simply seen anew.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import dagster as dg

from holdfast.ft_policies.errors import HoldfastError, TransientError
from holdfast.resources.project import Project, open_project


class Worlds(Protocol):
    """Opens a project's world; tests bring one of their own."""

    def open(self) -> AbstractContextManager[Project]:
        """Open it for the length of a `with` block."""
        ...


@dataclass(frozen=True, slots=True)
class ProjectWorlds:
    """The world of the project in this folder."""

    root: Path

    def open(self) -> AbstractContextManager[Project]:
        """Read the declarations and open the control store."""
        return open_project(self.root)


RETRIES = 3
RETRY_PAUSE_SECONDS = 5.0


@contextmanager
def explained() -> Iterator[None]:
    """Let Dagster retry what may heal, and fail at once, with the hint, what will not."""
    try:
        yield
    except TransientError as error:
        raise dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=RETRY_PAUSE_SECONDS) from error
    except HoldfastError as error:
        raise dg.Failure(str(error), metadata={"hint": error.hint}, allow_retries=False) from error
