"""The Dagster resource that opens a project for one tick, check or run, and its errors as Dagster's.

Nothing is opened when definitions load, and nothing is kept between ticks or runs: each reads the
declarations and connects to the control store again.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import dagster as dg

from holdfast.ft_policies.errors import HoldfastError, TransientError
from holdfast.resources.project import Project, open_project

RETRIES = 3
RETRY_PAUSE_SECONDS = 5.0


class ProjectResource(Protocol):
    """Opens a project; tests pass one on a fake clock and store."""

    def open(self) -> AbstractContextManager[Project]:
        """Open the project for one `with` block."""
        ...


@dataclass(frozen=True, slots=True)
class LocalProject:
    """The project in this folder."""

    root: Path

    def open(self) -> AbstractContextManager[Project]:
        """Read the declarations and open the control store; a mistake in a stream's file is that stream's alone."""
        return open_project(self.root, tolerant=True)


@contextmanager
def dagster_errors() -> Iterator[None]:
    """Raise Dagster's errors: a transient error asks for a retry, any other fails at once, with its hint."""
    try:
        yield
    except TransientError as error:
        raise dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=RETRY_PAUSE_SECONDS) from error
    except HoldfastError as error:
        raise dg.Failure(str(error), metadata={"hint": error.hint}, allow_retries=False) from error
