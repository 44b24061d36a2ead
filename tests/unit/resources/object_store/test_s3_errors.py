from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.object_store.s3 import (
    MissingObjectError,
    is_connection_failure,
    translate_error,
)


def answer(code: str, status: int = 400) -> ClientError:
    said: Any = {
        "Error": {"Code": code, "Message": "said"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(said, "PutObject")


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://x"),
        ConnectTimeoutError(endpoint_url="http://x"),
        ReadTimeoutError(endpoint_url="http://x"),
        ResponseStreamingError(error="broken"),
    ],
)
def test_a_store_that_is_away_comes_back(error: EndpointConnectionError) -> None:
    assert is_connection_failure(error)
    translated = translate_error(error, "put a", "there")
    assert isinstance(translated, TransientError)
    assert "does not answer (there)" in str(translated)
    assert "endpoint" in translated.hint


@pytest.mark.parametrize("error", [answer("SlowDown", 503), answer("Odd", 500), answer("503")])
def test_a_busy_store_is_worth_another_try(error: ClientError) -> None:
    assert isinstance(translate_error(error, "put a", "there"), TransientError)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("InvalidAccessKeyId", "access_key_id"),
        ("SignatureDoesNotMatch", "secret"),
        ("AccessDenied", "allow"),
        ("RequestTimeTooSkewed", "clock"),
        ("PermanentRedirect", "region"),
    ],
)
def test_what_the_operator_must_mend_says_how(code: str, hint: str) -> None:
    translated = translate_error(answer(code, 403), "get a", "there")
    assert isinstance(translated, PermanentError)
    assert hint in translated.hint


def test_a_missing_key_has_an_error_of_its_own() -> None:
    assert isinstance(
        translate_error(answer("NoSuchKey", 404), "get a", "there"), MissingObjectError
    )


def test_missing_credentials_are_permanent() -> None:
    translated = translate_error(NoCredentialsError(), "get a", "there")
    assert isinstance(translated, PermanentError)
    assert "AWS_PROFILE" in translated.hint


def test_a_wrong_call_is_permanent() -> None:
    translated = translate_error(ParamValidationError(report="bad"), "get a", "there")
    assert isinstance(translated, PermanentError)
