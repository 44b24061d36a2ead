"""The way to snapshots that are kept elsewhere."""

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import connector_elsewhere

HERE = S3Connection(
    bucket="ours",
    endpoint_url="http://here:9000",
    access_key_id="k",
    secret_access_key="s",  # noqa: S106
)


def found(url: str) -> S3Connection:
    return connector_elsewhere(url, lambda: HERE)()


def test_another_bucket_is_at_the_same_endpoint() -> None:
    there = found("s3://copies/of/snapshots")
    assert (there.bucket, there.prefix) == ("copies", "of/snapshots/")
    assert (there.endpoint_url, there.access_key_id) == ("http://here:9000", "k")
    assert found("s3://copies").prefix == ""


def test_another_endpoint_has_keys_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_KEY", "theirs")
    monkeypatch.setenv("THEIR_SECRET", "hidden")
    there = found(
        "s3://copies?endpoint_url=https://there&region=eu-west-1"
        "&access_key_id_env=THEIR_KEY&secret_access_key_env=THEIR_SECRET"
    )
    assert (there.endpoint_url, there.region) == ("https://there", "eu-west-1")
    assert (there.access_key_id, there.secret_access_key) == ("theirs", "hidden")


@pytest.mark.parametrize("url", ["http://copies/x", "s3://", "copies", "s3://copies?endpont_url=x"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(PermanentError, match="is not an address of snapshots") as refused:
        found(url)
    assert "s3://bucket/prefix" in refused.value.hint
