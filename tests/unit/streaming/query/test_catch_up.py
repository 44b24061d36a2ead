"""The last steps of a recovery are timed, and their size is recorded."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.catch_up import CatchUp
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.follower import RestoredState
from tests.builders.control_rows import decide
from tests.builders.replicas import a_spec
from tests.builders.vaults import a_stream
from tests.fakes.clocks import SteppedClock


@dataclass
class Replaying:
    """A query as far as catching up sees it."""

    spec: ReplicaSpec
    wired: bool = False
    epoch: int | None = None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


def test_wire_and_replay_are_timed_one_after_the_other(tmp_path: Path, store: ControlStore) -> None:
    decide(store, 8)
    sampler, query = Sampler(store, "words", "words-2"), Replaying(a_spec(tmp_path, store))
    clock = SteppedClock(at=10.0)
    catch_up = CatchUp(goal=6, start=2, wired=False, since=7.0, clock=clock)
    assert not catch_up.observe(query, sampler, sent=True)  # type: ignore[arg-type]
    query.wired, query.epoch = True, 5
    assert not catch_up.observe(query, sampler, sent=True)  # type: ignore[arg-type]
    clock.step(2.0)
    query.epoch = 7
    assert not catch_up.observe(query, sampler, sent=False)  # type: ignore[arg-type]
    assert catch_up.observe(query, sampler, sent=True)  # type: ignore[arg-type]
    catch_up.record_rows(query, store, sampler)  # type: ignore[arg-type]
    samples = store.samples.latest("words")
    assert samples[SampleName.WIRE_RECEIVE_SECONDS].value == 3.0
    assert samples[SampleName.REPLAY_SECONDS].value == 2.0
    assert (samples[SampleName.REPLAY_SECONDS].epoch, samples[SampleName.REPLAY_ROWS].epoch) == (
        6,
        6,
    )
    assert samples[SampleName.REPLAY_ROWS].value == 50.0  # epochs 3 to 7, ten rows each


def test_the_time_until_the_first_new_commit_is_a_step_of_its_own(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 8)
    sampler, query = Sampler(store, "words", "words-2"), Replaying(a_spec(tmp_path, store))
    clock = SteppedClock()
    catch_up = CatchUp(goal=7, start=2, wired=True, since=0.0, new_epoch=8, clock=clock)
    query.wired, query.epoch = True, 7
    assert catch_up.observe(query, sampler, sent=True)  # type: ignore[arg-type]
    assert not catch_up.observe_commit(query, sampler)  # type: ignore[arg-type]
    clock.step(2.0)
    query.epoch = 8
    assert catch_up.observe_commit(query, sampler)  # type: ignore[arg-type]
    assert not catch_up.observe_commit(query, sampler)  # type: ignore[arg-type]
    (sample,) = store.samples.series("words", SampleName.FIRST_COMMIT_SECONDS)
    assert sample.value == 2.0


def test_a_replay_that_commits_a_new_epoch_needs_no_other(
    tmp_path: Path, store: ControlStore
) -> None:
    query = Replaying(a_spec(tmp_path, store), wired=True, epoch=7)
    sampler = Sampler(store, "words", "words-2")
    catch_up = CatchUp(goal=7, start=2, wired=True, since=0.0, new_epoch=7)
    assert catch_up.observe_commit(query, sampler)  # type: ignore[arg-type]
    assert SampleName.FIRST_COMMIT_SECONDS not in store.samples.latest("words")


def test_a_stream_that_begins_replays_from_its_first_epoch(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 3)
    query = Replaying(a_spec(tmp_path, store), wired=True, epoch=1)
    catch_up = CatchUp(goal=-1, start=None, wired=True, since=0.0)
    sampler = Sampler(store, "words", "words-2")
    assert catch_up.observe(query, sampler, sent=True)  # type: ignore[arg-type]
    catch_up.record_rows(query, store, sampler)  # type: ignore[arg-type]
    assert store.samples.latest("words")[SampleName.REPLAY_ROWS].value == 20.0


def test_a_restore_tells_how_much_it_read(tmp_path: Path, store: ControlStore) -> None:
    sampler = Sampler(store, "words", "words-2")
    RestoredState(checkpoint=tmp_path, manifest=None, seconds=0.5).record(sampler)
    assert store.samples.latest("words")[SampleName.READ_SNAPSHOT_BYTES].value == 0.0
    manifest = a_stream(tmp_path / "primary").ship(3).manifest
    RestoredState(checkpoint=tmp_path, manifest=manifest, seconds=1.5).record(sampler)
    samples = store.samples.latest("words")
    assert samples[SampleName.READ_SNAPSHOT_BYTES].value == manifest.state_bytes
    assert (
        samples[SampleName.READ_SNAPSHOT_SECONDS].value,
        samples[SampleName.READ_SNAPSHOT_BYTES].epoch,
    ) == (1.5, 2)
