"""How Dagster code gets at a project: a resource that opens its world for a while.

Nothing is opened when definitions load, and nothing is kept between ticks or runs: a control store
that was away, or a declaration that was edited, is simply seen anew.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resources.project import Project, open_project


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
