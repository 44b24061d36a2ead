"""A query is replaced by one on newer state: the replica does not wait for its end, and its folder is removed after it."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.streaming.state.follower import LocalSnapshot
from tests.builders.vaults import a_stream
from tests.fakes.queries import SlowQuerySwap
from tests.waiting import wait_until


@pytest.fixture
def syncs(tmp_path: Path) -> tuple[LocalSnapshot, LocalSnapshot]:
    stream = a_stream(tmp_path / "primary", snapshot_every=1000, delta_bytes=100)
    old, new = stream.ship(1).manifest, stream.ship(1).manifest
    return a_sync(tmp_path / "old", old), a_sync(tmp_path / "new", new)


@pytest.fixture
def queries() -> SlowQuerySwap:
    nothing: Any = None
    return SlowQuerySwap(nothing, nothing, nothing)


def a_sync(folder: Path, manifest: Manifest) -> LocalSnapshot:
    folder.mkdir()
    return LocalSnapshot(manifest, folder, 0.1)


def test_a_fresh_query_replaces_the_held_one_without_waiting_for_its_end(
    syncs: tuple[LocalSnapshot, LocalSnapshot], queries: SlowQuerySwap
) -> None:
    old, new = syncs
    queries.start(old.checkpoint, old.manifest)
    held: Any = queries.current
    assert not queries.replace_with(new)
    replacement: Any = queries._replacement
    replacement.ready = True
    assert queries.replace_with(new)
    assert queries.current is replacement
    assert not held.ended.is_set()
    queries.remove_unused(shown={old.checkpoint}, keep=[new.checkpoint])
    assert old.checkpoint.exists(), "it may still write there"
    held.may_end.set()
    wait_until(
        lambda: held.ended.is_set() and not any(thread.is_alive() for thread in queries._leaving)
    )
    queries.remove_unused(shown=set(), keep=[new.checkpoint])
    assert not old.checkpoint.exists()
    assert new.checkpoint.exists()


def test_a_fresh_query_that_fails_gives_way_to_newer_state_and_is_never_gone_on_with(
    syncs: tuple[LocalSnapshot, LocalSnapshot], queries: SlowQuerySwap
) -> None:
    first, second = syncs
    queries.replace_with(first)
    failing: Any = queries._replacement
    failing.is_retrying = True
    assert not queries.adopt_replacement()
    queries.replace_with(first)
    assert queries._replacement is failing, "the same state would fail again"
    queries.replace_with(second)
    assert queries._replacement is not failing
    failing.may_end.set()


def test_state_that_was_shown_and_never_used_is_removed(
    tmp_path: Path, queries: SlowQuerySwap
) -> None:
    skipped = tmp_path / "skipped"
    skipped.mkdir()
    queries.remove_unused(shown={skipped}, keep=[])
    assert not skipped.exists()
