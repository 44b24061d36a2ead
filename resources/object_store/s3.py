"""The object store: seven verbs over S3, with errors of the vendor translated into transient and permanent ones.

One put is one PUT request and never a multipart upload, so that an object is either there in full
or not at all, and so that requests can be counted and priced.
"""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError as BotoConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
    TokenRetrievalError,
)
from botocore.response import StreamingBody

from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.resources.object_store.connection import S3Connection

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ANSWER_SECONDS = 30.0
_DELETE_LIMIT = 1000
_READ_ATTEMPTS = 3
_PART_BYTES = 1 << 20
_PARALLEL = 16
_REFUSED = (409, 412)
_UNKNOWN_CONDITION = 501
_T = TypeVar("_T")
_LOST = (BotoConnectionError, HTTPClientError, ResponseStreamingError, IncompleteReadError)
_BUSY = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "InternalError",
    "RequestTimeout",
    "OperationAborted",
    "503",
    "500",
}
_HINTS = {
    "InvalidAccessKeyId": "check access_key_id and the endpoint: the endpoint does not know the key",
    "SignatureDoesNotMatch": "check secret_access_key and region: the secret does not match the access key",
    "AccessDenied": "allow s3:GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "AllAccessDisabled": "ask the owner of the account for access",
    "403": "allow s3:GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "ExpiredToken": "renew the session credentials",
    "InvalidToken": "renew the session credentials",
    "RequestTimeTooSkewed": "synchronise the clock of this machine (NTP)",
    "NoSuchBucket": "run `holdfast up`, which creates the bucket, or correct its name",
    "InvalidBucketName": "use 3 to 63 lower-case letters, digits, dots and hyphens",
    "PermanentRedirect": "set region: the bucket is in another one",
    "AuthorizationHeaderMalformed": "set region: the bucket is in another one",
    "EntityTooLarge": "lower the pack limit: the object is larger than one PUT allows",
}


class MissingObjectError(PermanentError):
    """There is no object with this key."""


def is_connection_failure(error: BotoCoreError | ClientError) -> bool:
    """Whether the connection failed, before or during the answer."""
    return isinstance(error, _LOST)


def translate_error(error: BotoCoreError | ClientError, what: str, place: str) -> HoldfastError:
    """The failure as a transient or permanent error with a hint; to be raised `from` it."""
    if isinstance(error, ClientError):
        return _translate_answer(error, what, place)
    if is_connection_failure(error):
        return TransientError(
            f"{what}: the object store does not answer ({place}): {error}",
            hint="check that the endpoint is up and reachable from this host; run `holdfast up` to start the "
            "embedded one",
        )
    if isinstance(error, NoCredentialsError | PartialCredentialsError | ProfileNotFound):
        return PermanentError(
            f"{what}: no usable credentials for {place}: {error}",
            hint="set access_key_id and secret_access_key, or AWS_PROFILE, or an instance role",
        )
    if isinstance(error, TokenRetrievalError):
        return PermanentError(f"{what}: {error}", hint="log in again to renew the credentials")
    return PermanentError(f"{what}: {error} ({place})", hint="check the object store's settings")


def _translate_answer(error: ClientError, what: str, place: str) -> HoldfastError:
    code = str(error.response["Error"].get("Code", "unknown"))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    text = error.response["Error"].get("Message") or code
    message = f"{what}: {code} from {place}: {text}"
    if code in {"NoSuchKey", "404"}:
        return MissingObjectError(
            f"{what}: no such object in {place}",
            hint="check its name: it was never written, or was pruned",
        )
    if code in _BUSY or (status >= 500 and code not in _HINTS):
        return TransientError(
            message, hint="wait: the store is busy or failing, and the request is retried"
        )
    return PermanentError(
        message, hint=_HINTS.get(code, "look up this code in the documentation of the store")
    )


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing shows it."""

    key: str
    size_bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """The operations that Holdfast needs of an object store."""

    @property
    def requests(self) -> int:
        """How many requests were sent so far."""
        ...

    def put(self, key: str, body: bytes | BinaryIO) -> None:
        """Store an object with one request, in place of any that was there."""
        ...

    def create(self, key: str, body: bytes) -> None:
        """Store an object unless there is one; a store without conditional writes replaces that one."""
        ...

    def get(self, key: str) -> bytes: ...

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Read an object or a range of it in parts, as they come; it ends where the object ends."""
        ...

    def list(self, prefix: str) -> list[StoredObject]:
        """All objects whose key starts with the prefix, ordered by key."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; a missing object counts as deleted."""
        ...

    def read_clock(self) -> float:
        """Unix seconds on the clock by which the store dates its objects."""
        ...


class S3ObjectStore:
    """An S3 bucket through boto3; after a lost connection it calls `connect` again, since the bucket may have moved."""

    def __init__(
        self, connect: Callable[[], S3Connection], *, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self._connect = connect
        self._answer_seconds = answer_seconds
        self._lock = threading.Lock()
        self._opened: tuple[S3Client, S3Connection] | None = None
        self._requests = 0

    @property
    def requests(self) -> int:
        """How many HTTP requests were sent so far, retries included."""
        return self._requests

    def put(self, key: str, body: bytes | BinaryIO) -> None:
        """Store an object with one PUT; a file is read from its current position, and must be seekable."""
        start = 0 if isinstance(body, bytes) else body.tell()

        def send(client: "S3Client", where: S3Connection) -> None:
            if not isinstance(body, bytes):
                body.seek(start)
            client.put_object(Bucket=where.bucket, Key=where.prefix + key, Body=body)

        self._perform(f"put {key}", send)

    def create(self, key: str, body: bytes) -> None:
        """Store an object unless there is one; a store without conditional writes replaces that one."""

        def send(client: "S3Client", where: S3Connection) -> None:
            place: dict[str, Any] = {"Bucket": where.bucket, "Key": where.prefix + key}
            try:
                client.put_object(**place, Body=body, IfNoneMatch="*")
            except ClientError as error:
                status = error.response["ResponseMetadata"].get("HTTPStatusCode")
                if status == _UNKNOWN_CONDITION:
                    client.put_object(**place, Body=body)
                elif status not in _REFUSED:
                    raise

        self._perform(f"create {key}", send)

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        return b"".join(self.read(key))

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Read an object or a range of it in parts, as they come.

        A download that breaks off is resumed from there, as long as it makes progress.
        """
        end, losses = None if length is None else start + length, 0
        while end is None or start < end:
            try:
                with closing(self._body(key, start, end)) as body:
                    while part := body.read(_PART_BYTES):
                        start += len(part)
                        losses = 0 if len(part) == _PART_BYTES else losses
                        yield part
            except BotoCoreError as error:  # boto3 itself only repeats what was not answered
                losses += 1
                if losses == _READ_ATTEMPTS or not is_connection_failure(error):
                    raise translate_error(error, f"get {key}", self._open()[1].place) from error
            else:
                return

    def list(self, prefix: str) -> list[StoredObject]:
        """All objects whose key starts with the prefix, ordered by key, a request a thousand."""

        def read(client: "S3Client", where: S3Connection) -> list[StoredObject]:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=where.bucket, Prefix=where.prefix + prefix
            )
            return [
                StoredObject(
                    entry["Key"].removeprefix(where.prefix),
                    entry["Size"],
                    entry["LastModified"].timestamp(),
                )
                for page in pages
                for entry in page.get("Contents", [])
            ]

        return sorted(self._perform(f"list {prefix}", read), key=lambda stored: stored.key)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, a request a thousand; a missing object counts as deleted."""
        for begin in range(0, len(keys), _DELETE_LIMIT):
            self._delete_some(keys[begin : begin + _DELETE_LIMIT])

    def _delete_some(self, keys: Sequence[str]) -> None:
        def send(client: "S3Client", where: S3Connection) -> None:
            answer = client.delete_objects(
                Bucket=where.bucket,
                Delete={"Objects": [{"Key": where.prefix + key} for key in keys], "Quiet": True},
            )
            failed = [e for e in answer.get("Errors", []) if e.get("Code") != "NoSuchKey"]
            if failed:
                raise PermanentError(
                    f"{len(failed)} of {len(keys)} objects were not deleted, first {failed[0].get('Key')}: "
                    f"{failed[0].get('Code')}",
                    hint="check that the credentials allow s3:DeleteObject and that no lock holds them",
                )

        self._perform(f"delete {len(keys)} objects", send)

    def read_clock(self) -> float:
        """The time on the store's clock, as its answer to a listing has it."""

        def ask(client: "S3Client", where: S3Connection) -> str:
            answer = client.list_objects_v2(Bucket=where.bucket, Prefix=where.prefix, MaxKeys=1)
            return answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")

        stamp = self._perform("read the clock", ask)
        try:
            return parsedate_to_datetime(stamp).timestamp()
        except ValueError as error:
            raise PermanentError(
                f"the object store does not tell the time: the date of its answer is {stamp!r}",
                hint="check that no proxy removes the header Date",
            ) from error

    def ensure_bucket(self) -> None:
        """Create the bucket if it is missing; nothing else creates one, so a wrong name does not go unnoticed."""

        def create_if_missing(client: "S3Client", where: S3Connection) -> None:
            try:
                client.list_objects_v2(Bucket=where.bucket, Prefix=where.prefix, MaxKeys=1)
            except ClientError as error:
                if error.response["Error"].get("Code") != "NoSuchBucket":
                    raise
                _create_bucket(client, where)

        self._perform("look for the bucket", create_if_missing)

    def require_conditional_writes(self, key: str) -> None:
        """Raise if the store writes an object that is there, though asked not to; `key` must be free."""

        def attempt(client: "S3Client", where: S3Connection) -> bool:
            place: dict[str, Any] = {"Bucket": where.bucket, "Key": where.prefix + key}
            client.put_object(**place, Body=b"first")
            try:
                client.put_object(**place, Body=b"second", IfNoneMatch="*")
            except ClientError as error:
                if error.response["ResponseMetadata"].get("HTTPStatusCode") not in _REFUSED:
                    raise
                return True
            finally:
                client.delete_object(**place)
            return False

        if not self._perform("try a conditional write", attempt):
            raise PermanentError(
                f"the object store at {self._open()[1].place} ignores `If-None-Match`: two replicas could "
                "overwrite each other's commits to a table",
                hint="name a local folder for the table, or an S3 endpoint with conditional writes",
            )

    def _body(self, key: str, start: int, end: int | None) -> StreamingBody:
        """Request the bytes from `start` up to `end`, or to the end of the object."""
        last = "" if end is None else str(end - 1)
        options: dict[str, Any] = {"Range": f"bytes={start}-{last}"} if start or last else {}

        def ask(client: "S3Client", where: S3Connection) -> StreamingBody:
            try:
                answer = client.get_object(Bucket=where.bucket, Key=where.prefix + key, **options)
            except ClientError as error:
                if error.response["Error"].get("Code") != "InvalidRange":
                    raise
                return StreamingBody(io.BytesIO(), 0)  # the object ends before `start`
            return answer["Body"]

        return self._perform(f"get {key}", ask)

    def _perform(self, what: str, act: Callable[["S3Client", S3Connection], _T]) -> _T:
        client, where = self._open()
        try:
            return act(client, where)
        except (BotoCoreError, ClientError) as error:
            if not is_connection_failure(error):
                raise translate_error(error, what, where.place) from error
            opened = self._reconnect(where)
        try:
            return act(*opened)
        except (BotoCoreError, ClientError) as error:
            raise translate_error(error, what, opened[1].place) from error

    def _open(self) -> tuple["S3Client", S3Connection]:
        with self._lock:
            if self._opened is None:
                where = self._connect()
                self._opened = (self._client(where), where)
            return self._opened

    def _reconnect(self, lost: S3Connection) -> tuple["S3Client", S3Connection]:
        """Connect again: the store may have moved, or be started again by `connect`."""
        with self._lock:
            if self._opened is not None and self._opened[1] == lost:
                self._opened = None
        return self._open()

    def _client(self, where: S3Connection) -> "S3Client":
        try:
            client: S3Client = boto3.session.Session().client(
                "s3",
                endpoint_url=where.endpoint_url,
                region_name=where.region,
                aws_access_key_id=where.access_key_id,
                aws_secret_access_key=where.secret_access_key,
                config=_config(
                    path_style=where.endpoint_url is not None, answer_seconds=self._answer_seconds
                ),
            )
        except (BotoCoreError, ValueError) as error:
            raise PermanentError(
                f"no S3 client for {where.place}: {error}",
                hint="check endpoint_url, region and the AWS profile",
            ) from error
        client.meta.events.register("before-send.s3", self._count)
        return client

    def _count(self, **_: object) -> None:
        with self._lock:
            self._requests += 1


def _config(*, path_style: bool, answer_seconds: float) -> Config:
    return Config(
        connect_timeout=2,
        read_timeout=answer_seconds,
        max_pool_connections=_PARALLEL,
        retries={"mode": "standard", "total_max_attempts": 2},
        s3={"addressing_style": "path" if path_style else "auto"},
        # Newer boto3 adds checksum trailers that many S3-compatible servers do not understand.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def _create_bucket(client: "S3Client", where: S3Connection) -> None:
    options: dict[str, Any] = {}
    if where.endpoint_url is None and where.region != "us-east-1":
        options["CreateBucketConfiguration"] = {"LocationConstraint": where.region}
    try:
        client.create_bucket(Bucket=where.bucket, **options)
    except ClientError as error:
        code = error.response["Error"].get("Code")
        if code in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
            return
        raise PermanentError(
            f"bucket {where.bucket} does not exist and cannot be created ({code})",
            hint=f"create the bucket {where.bucket}, or allow s3:CreateBucket, or correct its name",
        ) from error
