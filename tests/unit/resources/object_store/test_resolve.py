"""The way to snapshots that are kept elsewhere, and to tables."""

import pytest

from holdfast.configs.declarations.deployment import Deployment, Place
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import connector_to_place, delta_options

HERE = S3Connection(
    bucket="ours",
    endpoint_url="http://here:9000",
    access_key_id="k",
    secret_access_key="s",  # noqa: S106
)


def found(place: Place) -> S3Connection:
    return connector_to_place(place, lambda: HERE)()


def test_another_bucket_is_at_the_same_endpoint() -> None:
    there = found(Place(bucket="copies", prefix="of/snapshots"))
    assert (there.bucket, there.prefix) == ("copies", "of/snapshots/")
    assert (there.endpoint_url, there.access_key_id) == ("http://here:9000", "k")
    assert found(Place(bucket="copies")).prefix == ""


def test_another_endpoint_has_keys_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_KEY", "theirs")
    monkeypatch.setenv("THEIR_SECRET", "hidden")
    there = found(
        Place(
            bucket="copies",
            endpoint_url="https://there",
            region="eu-west-1",
            access_key_id_env="THEIR_KEY",
            # pragma: allowlist nextline secret
            secret_access_key_env="THEIR_SECRET",  # noqa: S106
        )
    )
    assert (there.endpoint_url, there.region) == ("https://there", "eu-west-1")
    assert (there.access_key_id, there.secret_access_key) == ("theirs", "hidden")


def test_the_keys_of_the_project_go_to_no_other_endpoint() -> None:
    there = found(Place(bucket="copies", endpoint_url="https://there"))
    assert (there.access_key_id, there.secret_access_key) == (None, None)


def test_a_run_names_a_declared_place_and_no_address() -> None:
    deployment = Deployment(places={"copies": Place(bucket="copies")})

    assert deployment.place("copies").bucket == "copies"
    with pytest.raises(PermanentError, match="only from declared places") as refused:
        deployment.place("s3://b/p?endpoint_url=http://x&access_key_id_env=PGPASSWORD")
    assert "places in configs/holdfast.yaml" in refused.value.hint
    with pytest.raises(PermanentError, match="no place 'copy'") as unknown:
        deployment.place("copy")
    assert "copies" in unknown.value.hint


@pytest.mark.parametrize(
    ("endpoint", "allowed"), [("http://here", "true"), ("https://here", "false")]
)
def test_a_table_is_sent_in_clear_only_to_an_endpoint_that_is_declared_so(
    endpoint: str, allowed: str
) -> None:
    there = S3Connection(bucket="ours", endpoint_url=endpoint)

    assert delta_options("s3://ours/table", lambda: there)["AWS_ALLOW_HTTP"] == allowed
    assert "AWS_ALLOW_HTTP" not in delta_options("s3://ours/t", lambda: S3Connection(bucket="b"))
