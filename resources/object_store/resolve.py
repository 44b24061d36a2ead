"""Connections to the object store that a project declares.

Spark starts Python processes that import this module and mostly work on local files, so boto3,
which takes half a second to import, is imported only where it is needed.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse

from pyarrow import fs

from holdfast.configs.declarations.deployment import (
    EmbeddedObjectStore,
    ObjectStore,
    Place,
    S3ObjectStore,
)
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.connection import S3Connection


def connector(declared: ObjectStore, home: Path) -> Callable[[], S3Connection]:
    """A function that resolves the endpoint and the credentials at each call."""
    match declared:
        case EmbeddedObjectStore():
            return lambda: _connect_embedded(home)
        case S3ObjectStore():
            return lambda: S3Connection(
                endpoint_url=declared.endpoint_url,
                bucket=declared.bucket,
                prefix=declared.prefix,
                region=declared.region,
                access_key_id=_secret(declared.access_key_id_env),
                secret_access_key=_secret(declared.secret_access_key_env),
            )


def connector_to_place(
    place: Place, connect: Callable[[], S3Connection]
) -> Callable[[], S3Connection]:
    """The way to a declared place; the keys of the project's object store go to no other endpoint."""

    def connection() -> S3Connection:
        own = connect()
        folder = place.prefix.strip("/")
        remote = replace(own, bucket=place.bucket, prefix=f"{folder}/" if folder else "")
        if place.region is not None:
            remote = replace(remote, region=place.region)
        if place.endpoint_url is not None:
            remote = replace(
                remote, endpoint_url=place.endpoint_url, access_key_id=None, secret_access_key=None
            )
        if place.access_key_id_env is not None:
            remote = replace(remote, access_key_id=_secret(place.access_key_id_env))
        if place.secret_access_key_env is not None:
            remote = replace(remote, secret_access_key=_secret(place.secret_access_key_env))
        return remote

    return connection


def open_filesystem(path: str, connect: Callable[[], S3Connection]) -> tuple[fs.FileSystem, str]:
    """The Arrow filesystem that holds `path`, and the path within it."""
    url = urlparse(path)
    if url.scheme != "s3":
        return fs.LocalFileSystem(), str(Path(url.path if url.scheme == "file" else path))
    connection = connect()
    endpoint = urlparse(connection.endpoint_url or "")
    # Arrow's S3 client adds trailing checksums that many S3-compatible stores do not understand.
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED")
    return (
        fs.S3FileSystem(
            access_key=connection.access_key_id,
            secret_key=connection.secret_access_key,
            endpoint_override=endpoint.netloc or None,
            scheme=endpoint.scheme or "https",
            region=connection.region,
            allow_delayed_open=True,
        ),
        f"{url.netloc}{url.path}",
    )


def delta_options(path: str, connect: Callable[[], S3Connection]) -> dict[str, str]:
    """The storage options by which delta-rs reaches `path`."""
    if not path.startswith("s3://"):
        return {}
    connection = connect()
    options = {"AWS_REGION": connection.region}
    if connection.endpoint_url:
        options["AWS_ENDPOINT_URL"] = connection.endpoint_url
        options["AWS_ALLOW_HTTP"] = str(connection.endpoint_url.startswith("http://")).lower()
    if connection.access_key_id and connection.secret_access_key:
        options["AWS_ACCESS_KEY_ID"] = connection.access_key_id
        options["AWS_SECRET_ACCESS_KEY"] = connection.secret_access_key
    return options


def _connect_embedded(home: Path) -> S3Connection:
    from holdfast.resources.object_store.embedded import EmbeddedS3

    return EmbeddedS3(home).connection()


def _secret(variable: str | None) -> str | None:
    if variable is None:
        return None
    if variable not in os.environ:
        raise PermanentError(
            f"the environment variable {variable} is not set",
            hint=f"set {variable}: configs/holdfast.yaml names it for a credential of the object store",
        )
    return os.environ[variable]
