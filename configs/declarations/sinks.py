"""Where a stream's output goes."""

from typing import Literal, Self, TypeAlias

from pydantic import model_validator

from holdfast.configs.units import Flag, Location, Reference, Section, Text, relation_error


class DeltaSink(Section):
    """A Delta Lake table, one atomic commit per epoch; without a path it is in the home folder."""

    kind: Literal["delta"] = "delta"
    path: Location | None = None
    partition_by: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _partitions_once(self) -> Self:
        for name in self.partition_by:
            if self.partition_by.count(name) > 1:
                raise relation_error(("partition_by",), f"names the column {name} twice")
        return self


class CallableSink(Section):
    """The user's function `write(df, epoch)` or `write(df, epoch, token)`; `idempotent` promises that a second call for an epoch changes nothing."""

    kind: Literal["callable"] = "callable"
    function: Reference
    idempotent: Flag = False


Sink: TypeAlias = DeltaSink | CallableSink
