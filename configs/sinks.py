"""Where a stream's output goes."""

from typing import Literal, TypeAlias

from holdfast.configs.units import Flag, Reference, Section, Text


class DeltaSink(Section):
    """A Delta Lake table, one atomic commit per epoch; without a path it is in the home folder."""

    kind: Literal["delta"] = "delta"
    path: Text | None = None
    partition_by: tuple[Text, ...] = ()


class CallableSink(Section):
    """The user's function `write(df, epoch)` or `write(df, epoch, token)`; `idempotent` promises that a second call for an epoch changes nothing."""

    kind: Literal["callable"] = "callable"
    function: Reference
    idempotent: Flag = False


Sink: TypeAlias = DeltaSink | CallableSink
