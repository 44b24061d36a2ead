"""Staged files on S3 that no table names: they are deleted there, too, and nothing else is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from moto.server import ThreadedMotoServer

from holdfast.observation import orphans
from holdfast.orchestration.retention import drop_orphans
from holdfast.resources.object_store.resolve import connector, delta_options
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.project import Project, open_project
from holdfast.streaming.sinks.delta.compaction import TableCompaction
from tests.builders.delta_tables import words
from tests.builders.projects import a_project, stream_yaml

pytestmark = pytest.mark.integration

TABLE = "s3://staged/output"
STAGED = "data/000000000009-clicks-0123abcd-89abcdef"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("TABLES_KEY", "key")
    monkeypatch.setenv("TABLES_SECRET", "secret")
    declared = {
        "kind": "s3",
        "endpoint_url": f"http://{host}:{port}",
        "bucket": "staged",
        "access_key_id_env": "TABLES_KEY",
        # pragma: allowlist nextline secret
        "secret_access_key_env": "TABLES_SECRET",
    }
    deployment = yaml.safe_dump({"object_store": declared})
    root = a_project(tmp_path, clicks=stream_yaml(), holdfast=deployment)
    with open_project(root) as opened:
        opened.ensure_bucket()
        yield opened
    server.stop()


def test_staged_files_on_s3_go_once_they_are_old_and_others_stay(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = connector(project.config.deployment.object_store, project.config.home)
    write_deltalake(TABLE, words(3), storage_options=delta_options(TABLE, connect))
    store = S3ObjectStore(connect)
    store.put(f"output/{STAGED}/day=1/part-0.parquet", b"rows")
    others = ["output/data/notes.txt", "output/in/0.jsonl", f"output/b/{STAGED}/part-0.parquet"]
    for key in others:
        store.put(key, b"kept")
    assert drop_orphans(project, TABLE) == []
    monkeypatch.setattr(orphans, "ORPHAN_HOURS", -1)
    assert drop_orphans(project, TABLE) == [f"{STAGED}/day=1/part-0.parquet"]
    keys = {stored.key for stored in store.list("output/")}
    assert keys >= set(others)
    assert not any(key.startswith(f"output/{STAGED}/") for key in keys)
    assert (
        DeltaTable(TABLE, storage_options=delta_options(TABLE, connect)).to_pyarrow_table().num_rows
        == 3
    )


def test_deleted_files_on_s3_leave_no_folders_and_empty_ones_go(
    project: Project,
) -> None:
    connect = connector(project.config.deployment.object_store, project.config.home)
    options = delta_options(TABLE, connect)
    write_deltalake(TABLE, words(3), mode="overwrite", storage_options=options)
    store = S3ObjectStore(connect)
    store.put(f"output/{STAGED}/part-0.parquet", b"rows")
    TableCompaction(TABLE, connect).delete([f"{STAGED}/part-0.parquet"])
    assert store.list(f"output/{STAGED}") == []
    store.put(f"output/{STAGED}/", b"")  # as Arrow leaves it
    drop_orphans(project, TABLE, young_from=9)
    assert store.list(f"output/{STAGED}") != []  # the epoch is young
    drop_orphans(project, TABLE, young_from=10)
    assert store.list(f"output/{STAGED}") == []
