"""What boto3's errors mean: whether they heal by themselves, and what a person can do."""

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

from ft_policies.errors import HoldfastError, PermanentError, TransientError


class MissingObjectError(PermanentError):
    """There is no object of that key."""


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
    "InvalidAccessKeyId": "the access key is unknown there: check access_key_id and the endpoint",
    "SignatureDoesNotMatch": "the secret does not fit the access key: check secret_access_key and region",
    "AccessDenied": "allow s3:GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "AllAccessDisabled": "the account has no access: ask its owner",
    "403": "allow s3:GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "ExpiredToken": "renew the session credentials",
    "InvalidToken": "renew the session credentials",
    "RequestTimeTooSkewed": "the clock of this machine is wrong: synchronise it (NTP)",
    "NoSuchBucket": "create the bucket or correct its name",
    "InvalidBucketName": "use 3 to 63 lower-case letters, digits, dots and hyphens",
    "PermanentRedirect": "the bucket lives in another region: set region",
    "AuthorizationHeaderMalformed": "the bucket lives in another region: set region",
    "EntityTooLarge": "the object is larger than one PUT allows: lower the pack limit",
}


def is_connection_failure(error: BotoCoreError | ClientError) -> bool:
    """Whether the store was not reached, or was lost while it answered."""
    return isinstance(error, _LOST)


def translated(error: BotoCoreError | ClientError, what: str, place: str) -> HoldfastError:
    """The same failure as an error of ours, to be raised `from` it."""
    if isinstance(error, ClientError):
        return _answered(error, what, place)
    if is_connection_failure(error):
        return TransientError(
            f"{what}: the object store does not answer ({place}): {error}",
            hint="check that the endpoint is up and reachable from here; `holdfast up` starts the "
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


def _answered(error: ClientError, what: str, place: str) -> HoldfastError:
    code = str(error.response["Error"].get("Code", "unknown"))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    said = error.response["Error"].get("Message") or code
    message = f"{what}: {code} from {place}: {said}"
    if code in {"NoSuchKey", "404"}:
        return MissingObjectError(
            f"{what}: no such object in {place}", hint="it was never written, or was pruned"
        )
    if code in _BUSY or (status >= 500 and code not in _HINTS):
        return TransientError(message, hint="the store is busy or failing: it is tried again later")
    return PermanentError(
        message, hint=_HINTS.get(code, "see the store's documentation of this code")
    )
