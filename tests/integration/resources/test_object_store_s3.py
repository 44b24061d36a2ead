import socket
from dataclasses import replace

import pytest
from moto.server import ThreadedMotoServer

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.object_store.s3 import S3ObjectStore
from tests.contracts.object_store import ObjectStoreContract
from tests.fakes.connections import BreakingWay

pytestmark = pytest.mark.integration


class TestS3ObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, s3_store: S3ObjectStore) -> S3ObjectStore:
        return s3_store


def test_a_listing_goes_on_over_pages(s3_store: S3ObjectStore) -> None:
    keys = [f"many/{n:05d}" for n in range(1005)]
    for key in keys:
        s3_store.put(key, b"")
    before = s3_store.requests
    assert [item.key for item in s3_store.list("many/")] == keys
    assert s3_store.requests - before == 2
    s3_store.delete(keys)
    assert s3_store.list("many/") == []


def test_a_prefix_keeps_two_users_of_a_bucket_apart(embedded_s3: EmbeddedS3) -> None:
    def at(prefix: str) -> S3ObjectStore:
        return S3ObjectStore(lambda: replace(embedded_s3.connection(), prefix=prefix))

    at("one/").put("key", b"1")
    at("two/").put("key", b"2")
    assert at("one/").get("key") == b"1"
    assert [item.key for item in at("two/").list("")] == ["key"]


def test_a_bucket_that_is_missing_is_created_on_request_only(embedded_s3: EmbeddedS3) -> None:
    store = S3ObjectStore(lambda: replace(embedded_s3.connection(), bucket="brand-new"))
    for use in (lambda: store.list(""), lambda: store.put("a", b"1")):
        with pytest.raises(PermanentError, match="NoSuchBucket") as error:
            use()
        assert "holdfast up" in error.value.hint
    store.ensure_bucket()
    store.ensure_bucket()
    assert store.list("") == []
    store.put("a", b"1")
    assert store.get("a") == b"1"


def test_a_store_that_overwrites_though_asked_not_to_is_found(s3_store: S3ObjectStore) -> None:
    with pytest.raises(PermanentError, match="ignores `If-None-Match`"):
        s3_store.require_conditional_writes("tables/words.probe")
    assert s3_store.list("tables/") == []


def test_a_store_with_conditional_writes_is_accepted() -> None:
    server = ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        where = S3Connection(
            bucket="conditional",
            endpoint_url=f"http://{host}:{port}",
            access_key_id="key",
            # pragma: allowlist nextline secret
            secret_access_key="secret",  # noqa: S106
        )
        store = S3ObjectStore(lambda: where)
        store.ensure_bucket()
        store.require_conditional_writes("words.probe")
        assert store.list("") == []
        for body in (b"first", b"second"):
            store.create("owner", body)
        assert store.get("owner") == b"first"
    finally:
        server.stop()


def test_a_bucket_that_cannot_be_created_says_so(embedded_s3: EmbeddedS3) -> None:
    store = S3ObjectStore(lambda: replace(embedded_s3.connection(), bucket="no"))
    with pytest.raises(PermanentError, match="cannot be created") as error:
        store.ensure_bucket()
    assert "correct its name" in error.value.hint


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        # pragma: allowlist nextline secret
        ({"secret_access_key": "wrong"}, "secret_access_key"),
        ({"access_key_id": "wrong"}, "access_key_id"),
    ],
)
def test_wrong_credentials_are_reported(
    embedded_s3: EmbeddedS3, changed: dict[str, str], hint: str
) -> None:
    connection = embedded_s3.connection()
    wrong = S3Connection(
        bucket=connection.bucket,
        endpoint_url=connection.endpoint_url,
        access_key_id=changed.get("access_key_id", connection.access_key_id),
        secret_access_key=changed.get("secret_access_key", connection.secret_access_key),
    )
    with pytest.raises(PermanentError) as error:
        S3ObjectStore(lambda: wrong).list("")
    assert hint in error.value.hint


def test_an_endpoint_without_a_listener_is_transient() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        nowhere = S3Connection(
            bucket="any",
            endpoint_url=f"http://127.0.0.1:{port}",
            access_key_id="a",
            secret_access_key="b",  # noqa: S106
        )
        with pytest.raises(TransientError, match="does not answer"):
            S3ObjectStore(lambda: nowhere).put("a", b"1")


def test_a_store_that_moved_is_found_again(embedded_s3: EmbeddedS3) -> None:
    connection = embedded_s3.connection()
    answers = iter([replace(connection, endpoint_url="http://127.0.0.1:9"), connection])
    store = S3ObjectStore(lambda: next(answers))
    store.put("moved", b"found")
    assert store.get("moved") == b"found"


@pytest.mark.parametrize("times", [1, 3])
def test_what_breaks_off_is_gone_on_with_from_where_it_was(
    embedded_s3: EmbeddedS3, times: int
) -> None:
    connection, body = embedded_s3.connection(), bytes(range(256)) * 40_000
    S3ObjectStore(lambda: connection).put("long", body)
    assert connection.endpoint_url is not None
    way = BreakingWay(connection.endpoint_url, after_bytes=3 << 20, times=times)
    with way.opened() as address:
        store = S3ObjectStore(lambda: replace(connection, endpoint_url=address))
        parts = list(store.read("long", start=5, length=len(body) - 10))
    assert b"".join(parts) == body[5:-5]
    assert way.connections > times


def test_what_breaks_off_again_and_again_is_transient(embedded_s3: EmbeddedS3) -> None:
    connection = embedded_s3.connection()
    S3ObjectStore(lambda: connection).put("long", bytes(5 << 20))
    assert connection.endpoint_url is not None
    with BreakingWay(connection.endpoint_url, after_bytes=2000, times=99).opened() as address:
        store = S3ObjectStore(lambda: replace(connection, endpoint_url=address))
        with pytest.raises(TransientError, match="does not answer"):
            store.get("long")
