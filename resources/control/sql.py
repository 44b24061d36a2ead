"""SQL that both engines share: the store's clock, and columns that hold domain values.

All processes of a stream judge leases by one clock, the database's, so hosts whose own clocks are
minutes apart still agree on who is late.
"""

from dataclasses import asdict
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from ft_policies.tiers import Switches


class StoreNow(FunctionElement[float]):
    """Unix seconds on the database's clock, at the moment the statement runs."""

    name = "store_now"
    type = sa.Double()
    inherit_cache = True


def store_now() -> StoreNow:
    """Unix seconds on the database's clock, at the moment the statement runs."""
    return StoreNow()


@compiles(StoreNow, "postgresql")
def _postgresql_now(_element: StoreNow, _compiler: SQLCompiler, **_: Any) -> str:
    # not now(): that is the start of the transaction, which may have waited for a lock since
    return "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"


@compiles(StoreNow, "sqlite")
def _sqlite_now(_element: StoreNow, _compiler: SQLCompiler, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"  # 2440587.5 is 1970-01-01


class EnumText(sa.types.TypeDecorator[StrEnum]):
    """A `StrEnum` kept as its text, so that a new member needs no migration."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, enum: type[StrEnum]) -> None:
        super().__init__()
        self.enum = enum

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Store the member's text; refuse what is no member."""
        return None if value is None else self.enum(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        """Read the member back."""
        return None if value is None else self.enum(value)


class SwitchesJson(sa.types.TypeDecorator[Switches]):
    """The switches of a replica as a JSON object."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Switches | None, dialect: Dialect) -> dict[str, bool]:
        """Store each switch by name."""
        return asdict(value or Switches())

    def process_result_value(self, value: dict[str, bool] | None, dialect: Dialect) -> Switches:
        """Read the switches back; one that is not there is off."""
        return Switches(**(value or {}))
