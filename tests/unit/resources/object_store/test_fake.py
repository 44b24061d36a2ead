import pytest

from holdfast.resources.object_store.connection import S3Connection
from tests.contracts.object_store import ObjectStoreContract
from tests.fakes.object_store import InMemoryObjectStore


class TestInMemoryObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryObjectStore:
        return InMemoryObjectStore()


def test_a_connection_does_not_show_its_secret() -> None:
    connection = S3Connection(bucket="b", access_key_id="known", secret_access_key="hidden")  # noqa: S106
    assert "hidden" not in repr(connection)
    assert "known" in repr(connection)
