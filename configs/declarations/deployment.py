"""What all streams of a project share: `configs/holdfast.yaml`."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from holdfast.configs.units import (
    ByteSize,
    Duration,
    EnvironmentVariable,
    LocalFolder,
    LongDuration,
    Reference,
    Section,
    Text,
    check_port,
    matches_pattern,
    relation_error,
)
from holdfast.ft_policies.errors import PermanentError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Log(Section):
    """An error in the log of Dagster's code server."""

    kind: Literal["log"] = "log"


class Webhook(Section):
    """A POST with JSON in the form that chat services accept; an environment variable holds the URL, which is a secret."""

    kind: Literal["webhook"] = "webhook"
    url_env: EnvironmentVariable


class Function(Section):
    """The user's function, called with the alert as a dict."""

    kind: Literal["function"] = "function"
    function: Reference


NotifyTarget: TypeAlias = Log | Webhook | Function


class ControlStore(Section):
    """The database that replicas and Dagster share; without a URL it is SQLite in the home folder."""

    url: (
        Annotated[
            str,
            matches_pattern(
                r"sqlite:///[/~][^?]*[^?/](\?.*)?|(postgresql(\+psycopg)?|postgres)://.*",
                "a database URL, sqlite:////folder/control.db or postgresql://user@host/name",
            ),
            AfterValidator(check_port),
        ]
        | None
    ) = None


class EmbeddedObjectStore(Section):
    """An S3 endpoint that Holdfast itself serves from the home folder."""

    kind: Literal["embedded"] = "embedded"


Endpoint = Annotated[
    str,
    matches_pattern(r"https?://[^\s/?#]+(/[^\s?#]*)?", "a URL, http://… or https://…"),
    AfterValidator(check_port),
]
Prefix = Annotated[
    str,
    matches_pattern(
        r"(?!/)(?!(.*/)?\.{1,2}(/|$))[^\0]*",
        "a folder of the bucket such as prod/, without . and ..",
    ),
]
Bucket = Annotated[
    str,
    matches_pattern(
        "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        "3 to 63 lower-case letters, digits, dots and hyphens",
    ),
]


class _InS3(Section):
    """Objects in a bucket; environment variables hold the credentials, this file only their names."""

    endpoint_url: Endpoint | None = None
    bucket: Bucket
    prefix: Prefix = ""
    access_key_id_env: EnvironmentVariable | None = None
    secret_access_key_env: EnvironmentVariable | None = None

    @model_validator(mode="after")
    def _names_both_or_none(self) -> Self:
        names = ("access_key_id_env", "secret_access_key_env")
        named = [name for name in names if getattr(self, name) is not None]
        if len(named) == 1:
            (other,) = set(names) - set(named)
            raise relation_error((named[0],), f"needs {other} beside it: name both, or none")
        return self


class S3ObjectStore(_InS3):
    """Any S3-compatible endpoint."""

    kind: Literal["s3"] = "s3"
    region: Text = "us-east-1"


class Place(_InS3):
    """Where copies of snapshots are; without an endpoint of its own, at the object store of the project."""

    region: Text | None = None


ObjectStore: TypeAlias = EmbeddedObjectStore | S3ObjectStore


class DagsterServer(Section):
    """Where the Dagster UI listens, under which other names it answers, and which variable holds its token."""

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] = 3000
    allowed_hosts: tuple[Text, ...] = ()
    token_env: EnvironmentVariable | None = None

    @model_validator(mode="after")
    def _is_guarded(self) -> Self:
        if self.host not in LOOPBACK and self.token_env is None:
            raise relation_error(
                ("host",),
                "other machines could reach it: use 127.0.0.1, or name the variable that holds its token in token_env",
            )
        return self


class Samples(Section):
    """How long measurements are kept."""

    keep: LongDuration = 7 * 86400.0


class Retention(Section):
    """How long each kind of record is kept; the hourly schedule `retention` deletes what is older."""

    restore_window: LongDuration = 86400.0
    table_versions: LongDuration = 2 * 3600.0  # restores read the newest version only
    records: LongDuration = 30 * 86400.0
    dagster: LongDuration = 7 * 86400.0
    routine_runs: LongDuration = 86400.0
    skipped_ticks: LongDuration = 2 * 3600.0
    log_size: ByteSize = 64 * 1024**2


class Deployment(Section):
    """The home folder and the services; every field has a default that needs no other machine."""

    home: LocalFolder = ".holdfast"
    control_store: ControlStore = ControlStore()
    object_store: Annotated[ObjectStore, Field(discriminator="kind")] = EmbeddedObjectStore()
    places: dict[Text, Place] = {}  # noqa: RUF012 - pydantic copies it
    dagster: DagsterServer = DagsterServer()
    samples: Samples = Samples()
    retention: Retention = Retention()
    alert_after: Duration = 900.0  # an incident that is open for longer raises an alert
    notify: tuple[Annotated[NotifyTarget, Field(discriminator="kind")], ...] = (Log(),)

    def place(self, name: str) -> Place:
        """A declared place by its name; a run must not choose addresses or variables."""
        if name in self.places:
            return self.places[name]
        if "://" in name:
            raise PermanentError(
                f"{name!r} is an address: snapshots are taken only from declared places",
                hint="add it to places in configs/holdfast.yaml, as NAME: {bucket: …, prefix: …}, and give its NAME",
            )
        declared = ", ".join(sorted(self.places)) or "none is declared"
        raise PermanentError(
            f"there is no place {name!r}",
            hint=f"name one of places in configs/holdfast.yaml: {declared}",
        )
