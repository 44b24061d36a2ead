"""All queries of the applications, found by convention: `apps/<app>/<query>.yaml` and what belongs to it.

The declaration names the module with `build`; the oracle has a function of that module's name, and
`accepted` where the application has rules for its input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import yaml

Expected: TypeAlias = Callable[..., dict[int, pd.DataFrame]]
"""`(rows, params, *, last_epoch)`: the output of every epoch."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of an application, as it is declared."""

    app: str
    declaration: Mapping[str, Any]

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return str(self.declaration["name"])

    @property
    def module(self) -> str:
        """The name of the module that builds it, within its application."""
        return str(self.declaration["app"]).partition(":")[0].rpartition(".")[2]

    @property
    def expected(self) -> Expected:
        """The oracle of the query."""
        expected: Expected = getattr(import_module(f"apps.{self.app}.oracle"), self.module)
        return expected

    def accepted(self, rows: pd.DataFrame) -> "pd.Series[bool]":
        """Which well-formed rows the oracle accepts; all, if the application has no rules."""
        oracle = import_module(f"apps.{self.app}.oracle")
        if not hasattr(oracle, "accepted"):
            return pd.Series(data=True, index=rows.index, dtype=bool)
        accepted: pd.Series[bool] = oracle.accepted(rows)
        return accepted


def list_queries() -> list[Query]:
    """The declared queries that read files, in the order of their paths."""
    queries = []
    for path in sorted(Path(__file__).parent.glob("*/*.yaml")):
        declaration = yaml.safe_load(path.read_text())
        if declaration["source"]["kind"] == "files":
            queries.append(Query(path.parent.name, declaration))
    return queries
