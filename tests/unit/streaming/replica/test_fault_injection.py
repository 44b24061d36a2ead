"""A replica whose way to the object store is cut, for a while."""

from pathlib import Path

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.streaming.replica.fault_injection import (
    BlockableStore,
    block_object_store,
    blocked_until,
)
from tests.fakes.object_store import InMemoryObjectStore


def test_a_way_that_is_cut_lets_nothing_through_until_its_time_is_over(tmp_path: Path) -> None:
    objects = InMemoryObjectStore()
    way = BlockableStore(objects, tmp_path)
    way.put("a", b"1")
    until = block_object_store(tmp_path, seconds=60.0)
    assert blocked_until(tmp_path) == until
    for request in (
        lambda: way.put("b", b"2"),
        lambda: way.get("a"),
        lambda: way.list(""),
        lambda: way.delete(["a"]),
    ):
        with pytest.raises(TransientError, match="a drill blocks the object store"):
            request()
    block_object_store(tmp_path, seconds=-1.0)
    assert way.get("a") == b"1"
    assert [entry.key for entry in way.list("")] == ["a"]
    way.delete(["a"])
    assert way.requests == objects.requests


def test_the_way_of_another_replica_is_open(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    block_object_store(tmp_path / "one", seconds=60.0)
    assert blocked_until(tmp_path / "other") == 0.0
    assert BlockableStore(InMemoryObjectStore(), tmp_path / "other").list("") == []
