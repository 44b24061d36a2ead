"""A project with PostgreSQL and local folders runs on one host; the other one is a second home folder here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.resources.control_store.records import Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.local_folders import require_home, require_one_host
from tests.builders.projects import a_project, stream_yaml
from tests.live.postgres import fresh_database

pytestmark = pytest.mark.integration

IN_S3 = """
object_store: {kind: s3, bucket: streams, prefix: prod/}
"""


@pytest.fixture
def store() -> Iterator[ControlStore]:
    with fresh_database() as url, ControlStore.open(url) as opened:
        yield opened


def a_host(
    folder: Path, *, deployment: str = "home: .holdfast", **changes: object
) -> ProjectConfig:
    root = a_project(folder, clicks=stream_yaml(**changes), holdfast=deployment)
    return ProjectConfig.load(root)


def require(host: ProjectConfig, store: ControlStore) -> None:
    require_one_host(host, store, host.stream("clicks"))


def test_the_first_host_stays_the_only_one(tmp_path: Path, store: ControlStore) -> None:
    first, second = a_host(tmp_path / "one"), a_host(tmp_path / "two")
    require(first, store)
    require(first, store)
    for refuse in (require_home, require_one_host):
        with pytest.raises(PermanentError, match="belongs to another host"):
            refuse(second, store, second.stream("clicks"))


def test_folders_that_moved_with_their_id_are_the_same_host(
    tmp_path: Path, store: ControlStore
) -> None:
    require(a_host(tmp_path / "one"), store)
    (tmp_path / "one").rename(tmp_path / "moved")
    require(ProjectConfig.load(tmp_path / "moved"), store)


def test_a_stream_whose_places_are_all_in_s3_may_run_anywhere(
    tmp_path: Path, store: ControlStore
) -> None:
    sink = {"kind": "delta", "path": "s3://tables/clicks"}
    for name in ("one", "two"):
        require(a_host(tmp_path / name, deployment=IN_S3, sink=sink), store)


def test_no_replica_is_launched_beside_one_on_a_clone_of_this_host(
    tmp_path: Path, store: ControlStore
) -> None:
    host = a_host(tmp_path)
    store.streams.declare("clicks", {}, "deployed")
    fields = {"stream": "clicks", "slot": Slot.PRIMARY, "desired": PRIMARY, "folder": ""}
    store.replicas.register(id="r1", host="clone", boot="another", **fields)
    with pytest.raises(TransientError, match="on the host clone"):
        require(host, store)
