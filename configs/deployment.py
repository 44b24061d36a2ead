"""What all streams of a project share: `configs/holdfast.yaml`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from configs.units import Duration, EnvironmentVariable, Section


class ControlStore(Section):
    """The database that replicas and Dagster meet in; without a URL it is SQLite in the home folder."""

    url: Annotated[str, Field(pattern=r"^(sqlite|postgresql)(\+\w+)?://")] | None = None


class EmbeddedObjectStore(Section):
    """An S3 endpoint that Holdfast itself serves from the home folder."""

    kind: Literal["embedded"] = "embedded"


class S3ObjectStore(Section):
    """Any S3-compatible endpoint; credentials are named by environment variable, never written here."""

    kind: Literal["s3"] = "s3"
    endpoint_url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    prefix: str = ""
    region: str = "us-east-1"
    access_key_id_env: EnvironmentVariable | None = None
    secret_access_key_env: EnvironmentVariable | None = None


ObjectStore: TypeAlias = EmbeddedObjectStore | S3ObjectStore


class DagsterServer(Section):
    """Where the Dagster UI listens."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 3000


class Samples(Section):
    """How long measurements are kept."""

    keep: Duration = 7 * 86400.0


class Deployment(Section):
    """The home folder and the services; every field has a default that needs no other machine."""

    home: Annotated[str, Field(min_length=1)] = ".holdfast"
    control_store: ControlStore = ControlStore()
    object_store: Annotated[ObjectStore, Field(discriminator="kind")] = EmbeddedObjectStore()
    dagster: DagsterServer = DagsterServer()
    samples: Samples = Samples()
