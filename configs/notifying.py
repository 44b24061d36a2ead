"""Who is told when a run fails: `notify` in `configs/holdfast.yaml`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from configs.units import EnvironmentVariable, Reference, Section


class Log(Section):
    """An error in the log of Dagster's code server."""

    kind: Literal["log"] = "log"


class Webhook(Section):
    """A POST with JSON, as chat programs take it; its URL is a secret, so a variable names it."""

    kind: Literal["webhook"] = "webhook"
    url_env: EnvironmentVariable


class Function(Section):
    """The user's own `tell(alert)`, called with a dict."""

    kind: Literal["function"] = "function"
    function: Reference


AnyTold: TypeAlias = Log | Webhook | Function
Told: TypeAlias = Annotated[AnyTold, Field(discriminator="kind")]
