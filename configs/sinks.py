"""Where a stream's output goes."""

from typing import Literal, TypeAlias

from configs.units import Flag, Reference, Section, Text


class DeltaSink(Section):
    """A Delta Lake table, one atomic commit an epoch; without a path it lives in the home folder."""

    kind: Literal["delta"] = "delta"
    path: Text | None = None
    partition_by: tuple[Text, ...] = ()


class CallableSink(Section):
    """The user's own `write(df, epoch)`; `idempotent` promises that a second call changes nothing."""

    kind: Literal["callable"] = "callable"
    function: Reference
    idempotent: Flag = False


Sink: TypeAlias = DeltaSink | CallableSink
