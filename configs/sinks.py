"""Where a stream's output goes."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from configs.units import Reference, Section


class DeltaSink(Section):
    """A Delta Lake table, one atomic commit an epoch; without a path it lives in the home folder."""

    kind: Literal["delta"] = "delta"
    path: Annotated[str, Field(min_length=1)] | None = None
    partition_by: tuple[str, ...] = ()


class CallableSink(Section):
    """The user's own `write(df, epoch)`; `idempotent` promises that a second call changes nothing."""

    kind: Literal["callable"] = "callable"
    function: Reference
    idempotent: bool = False


Sink: TypeAlias = DeltaSink | CallableSink
