"""The tables of a stream as the control store knows them, and the storage that may hold them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.configs.declarations.deployment import S3ObjectStore as S3Declaration
from holdfast.configs.declarations.sinks import DeltaSink as DeltaDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.streaming.sinks.dead_letters import DeadLetterTable
from holdfast.streaming.sinks.delta.sink import DeltaSink
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.output import require_conditional_writes
from tests.builders.delta_sinks import SCHEMA
from tests.builders.replicas import a_spec
from tests.fakes.leases import FixedToken

BUCKET = "s3://tables/prod"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys at which a conditional write was tried, as on an endpoint that has them."""
    keys: list[str] = []
    monkeypatch.setattr(
        S3ObjectStore, "require_conditional_writes", lambda _self, key: keys.append(key)
    )
    return keys


@pytest.fixture
def _overwriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that overwrites though asked not to."""

    def refuse(_self: S3ObjectStore, _key: str) -> None:
        raise PermanentError("the object store ignores `If-None-Match`")

    monkeypatch.setattr(S3ObjectStore, "require_conditional_writes", refuse)


def at(endpoint: str) -> S3Connection:
    return S3Connection(bucket="snapshots", endpoint_url=endpoint)


def test_a_bucket_is_tried_once_for_all_tables_and_processes(
    store: ControlStore, probed: list[str]
) -> None:
    for table in ("one", "two", "one"):
        require_conditional_writes(store, f"{BUCKET}/{table}", lambda: at("http://a"))
    assert [key.partition(".probe-")[0] for key in probed] == ["prod/one"]
    require_conditional_writes(store, f"{BUCKET}/one", lambda: at("http://b"))
    require_conditional_writes(store, "s3://others/one", lambda: at("http://b"))
    assert len(probed) == 3


def test_a_local_table_needs_no_endpoint(store: ControlStore, probed: list[str]) -> None:
    def connect() -> S3Connection:
        raise AssertionError("the table is on a disk")

    require_conditional_writes(store, "/data/table", connect)
    assert probed == []


@pytest.mark.usefixtures("_overwriting")
def test_one_that_overwrites_is_tried_again_and_refused_again(store: ControlStore) -> None:
    for _ in range(2):
        with pytest.raises(PermanentError, match="ignores"):
            require_conditional_writes(store, f"{BUCKET}/one", lambda: at("http://a"))


@pytest.mark.usefixtures("_overwriting")
def test_neither_output_nor_dead_letters_are_opened_where_a_commit_can_be_overwritten(
    store: ControlStore, tmp_path: Path
) -> None:
    declared = S3Declaration(kind="s3", bucket="snapshots", endpoint_url="http://127.0.0.1:9")
    places = {"table": f"{BUCKET}/words", "dead_letters": f"{BUCKET}/aside"}
    spec = a_spec(tmp_path, store).model_copy(update={"object_store": declared, **places})
    sink = DeltaSink(
        spec, DeltaDeclaration(), LedgerWriter(store, spec.stream.name, "a", FixedToken())
    )
    for schema in (SCHEMA, None):
        with pytest.raises(PermanentError, match="ignores"):
            sink.prepare(schema)
    with pytest.raises(PermanentError, match="ignores"):
        DeadLetterTable(spec, store)._open_table()
