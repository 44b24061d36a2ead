"""Migrations of a stream whose drivers are simulated: real control store, real declarations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError
from ft_policies.migration import Protocol
from orchestration.playbooks import migration_steps
from orchestration.playbooks.migrate import Wish, migrate, migration_plan
from orchestration.playbooks.watching import NOT_DUE
from resources.control.records import (
    DesiredState,
    Phase,
    ReplicaRow,
    ReplicaState,
    Slot,
    SnapshotRow,
)
from streaming.observing import observe
from streaming.priority import GIVING_WAY
from streaming.recomputing import Recomputed
from streaming.session import BINDING, PROVIDER
from streaming.spec import ReplicaSpec
from streaming.world import World
from tests.fakes.declared import written
from tests.fakes.drivers import SimulatedDrivers, simulated_drivers
from tests.fakes.worlds import (
    CLICKS,
    PATIENT,
    SimulatedWorlds,
    a_wanted_stream,
    committed,
    simulated_worlds,
)
from tests.support.control_builders import a_snapshot, an_entry
from tests.support.playbooks import recovered

DECLARED = {
    "supervision": PATIENT,
    "epoch": {"seconds": "10ms", "silence": "10ms"},
    "checkpoint": {"epochs": 1},
    "secondary": {"sync": "10ms"},
}


@pytest.fixture(autouse=True)
def _no_epoch_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_steps, "SLACK_SECONDS", 0.1)


@contextmanager
def a_live_world(
    root: Path, patch: pytest.MonkeyPatch, **changes: object
) -> Iterator[tuple[SimulatedWorlds, World, SimulatedDrivers]]:
    worlds = simulated_worlds(root, **{**DECLARED, **changes})
    with worlds.open() as world, simulated_drivers(world, patch) as drivers:
        a_wanted_stream(world)
        recovered(drivers)
        yield worlds, world, drivers


@contextmanager
def written_anew(worlds: SimulatedWorlds, **changes: object) -> Iterator[World]:
    """The world after people have changed the stream's file."""
    file = worlds.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(written(name=CLICKS, **{**DECLARED, **changes}), encoding="utf-8")
    with worlds.open() as world:
        yield world


def primary_of(world: World) -> ReplicaRow:
    row = observe(world, CLICKS).primary
    assert row is not None
    return row


def memory_of(world: World) -> str:
    row = world.store.streams.get(CLICKS)
    assert row is not None
    return str(row.declaration["resources"]["driver_memory"])


LARGER = {"resources": {"driver_memory": "2g"}}


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("tier", ["passive_replication", "active_standby"])
def test_a_stream_runs_by_what_is_declared_now_and_so_does_its_secondary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: Protocol, tier: str
) -> None:
    with a_live_world(tmp_path, monkeypatch, tier=tier) as (worlds, before, drivers):
        old = primary_of(before)
        with written_anew(worlds, tier=tier, **LARGER) as world:
            wish = Wish(protocol=protocol)
            done = [one.name for one in migrate(world, CLICKS, "r", wish, beat=drivers.act)]
            assert "FinishMigration" in done
            assert primary_of(world).id != old.id
            assert memory_of(world) == "2g"
            live = world.store.replicas.of(CLICKS)
            assert {row.rollout for row in live} == {1}
            assert {row.slot for row in live} == (
                {Slot.PRIMARY} if tier == "passive_replication" else {Slot.PRIMARY, Slot.SECONDARY}
            )
            [rollout] = world.store.rollouts.history(CLICKS)
            assert (rollout.done, rollout.why) == (True, "asked for")
            assert list(migrate(world, CLICKS, "r2", Wish())) == [], "there is nothing left to do"


def test_a_migration_whose_run_dies_is_finished_by_whoever_looks_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_live_world(tmp_path, monkeypatch) as (worlds, _, drivers),
        written_anew(worlds, **LARGER) as world,
    ):
        steps = migrate(world, CLICKS, "first", Wish(), beat=drivers.act)
        assert next(steps).name == "LaunchSecondary"
        steps.close()  # type: ignore[attr-defined]
        assert "FinishMigration" in recovered(drivers), "the recovery sensor's run does it, too"
        assert memory_of(world) == "2g"


def test_a_target_that_is_not_level_in_time_is_let_go_and_the_primary_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_live_world(tmp_path, monkeypatch) as (worlds, before, drivers):
        old = primary_of(before)
        with written_anew(worlds, **LARGER) as world:
            steps = migrate(world, CLICKS, "r", Wish(within_seconds=0.0), beat=drivers.act)
            with pytest.raises(PermanentError, match="rolled back: the target was not level"):
                list(steps)
            assert primary_of(world).id == old.id
            assert memory_of(world) == "1g"
            assert world.store.replicas.live(CLICKS, Slot.SECONDARY) is None


@pytest.mark.parametrize(
    ("protocol", "nice"), [(Protocol.INTERRUPTION_FREE, GIVING_WAY), (Protocol.REPLAY, 0)]
)
def test_a_target_gives_way_to_a_primary_that_is_not_to_be_slowed_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: Protocol, nice: int
) -> None:
    with (
        a_live_world(tmp_path, monkeypatch) as (worlds, _, drivers),
        written_anew(worlds, **LARGER) as world,
    ):
        list(migrate(world, CLICKS, "r", Wish(protocol=protocol), beat=drivers.act))
        old, new = (
            ReplicaSpec.load(Path(row.folder))
            for row in sorted(
                world.store.replicas.of(CLICKS, live=False), key=lambda row: row.rollout
            )
        )
        assert (old.nice, new.nice) == (0, nice)


@pytest.mark.parametrize(
    ("protocol", "waits"), [(Protocol.REPLAY, False), (Protocol.INTERRUPTION_FREE, True)]
)
def test_only_a_target_that_replays_gets_the_lease_before_it_has_computed_the_last_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: Protocol, *, waits: bool
) -> None:
    with (
        a_live_world(tmp_path, monkeypatch) as (worlds, _, drivers),
        written_anew(worlds, **LARGER) as world,
    ):
        commits = looks = 0

        def stays_two_epochs_behind() -> None:
            nonlocal commits, looks
            commits += 1
            committed(world, commits)
            target = world.store.replicas.live(CLICKS, Slot.SECONDARY)
            if target is not None and commits > 2:
                world.store.ledger.commit(an_entry(commits - 3, stream=CLICKS, replica=target.id))
            [last] = world.store.journal.of(CLICKS, limit=1)
            looks += (last.step, last.phase) == ("HandOver", Phase.INTENT)
            drivers.epoch = commits - 4
            drivers.act()

        wish = Wish(protocol=protocol, may_differ=True)
        steps = migrate(world, CLICKS, "r", wish, beat=stays_two_epochs_behind)
        handed_over = next(one for one in steps if one.name == "HandOver")
        assert "epoch" in handed_over.found
        assert (looks > 4) is waits


@pytest.mark.parametrize("may_differ", [True, False])
def test_code_that_would_put_out_something_else_is_refused_unless_that_is_wanted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    may_differ: bool,
) -> None:
    with (
        a_live_world(tmp_path, monkeypatch) as (worlds, _, drivers),
        written_anew(worlds, params={"threshold": 2}) as world,
    ):
        committed(world, 3)
        world.store.snapshots.record(a_snapshot("s1", 1, stream=CLICKS))
        tried: list[tuple[object, int]] = []

        def recomputed(
            _: World, target: StreamDeclaration, __: str, row: SnapshotRow
        ) -> Recomputed:
            tried.append((target.params["threshold"], row.epoch))
            return Recomputed(rows=3, digest="another")

        monkeypatch.setattr("orchestration.playbooks.migrate._recomputed", recomputed)
        steps = migrate(world, CLICKS, "r", Wish(may_differ=may_differ), beat=drivers.act)
        if may_differ:
            assert next(steps).name == "LaunchSecondary"
        else:
            with pytest.raises(PermanentError, match="epoch 2 has 3 rows"):
                next(steps)
            assert world.store.rollouts.history(CLICKS) == []
        assert tried == [(2, 1)]


def test_time_is_also_over_while_a_switch_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_live_world(tmp_path, monkeypatch) as (worlds, before, drivers):
        old, drivers.turns = primary_of(before), False
        with written_anew(worlds, **LARGER) as world:
            steps = migrate(world, CLICKS, "r", Wish(within_seconds=0.5), beat=drivers.act)
            assert [next(steps).name, next(steps).name] == ["LaunchSecondary", "TurnSwitch"]
            with pytest.raises(PermanentError, match="rolled back: the target was not level"):
                list(steps)
            assert primary_of(world).id == old.id


def test_targets_that_fail_one_after_the_other_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_live_world(tmp_path, monkeypatch) as (worlds, before, drivers):
        old, drivers.failing = primary_of(before), 3
        with written_anew(worlds, **LARGER) as world:
            steps = migrate(world, CLICKS, "r", Wish(), beat=drivers.act)
            with pytest.raises(PermanentError, match="rolled back: the target failed: no room"):
                list(steps)
            assert drivers.failing == 0
            assert primary_of(world).id == old.id


def test_a_hand_over_is_put_off_while_the_target_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment at which it is well is waited for; one that dies meanwhile gets nothing."""
    with (
        a_live_world(tmp_path, monkeypatch) as (worlds, _, drivers),
        written_anew(worlds, **LARGER) as world,
    ):
        old = primary_of(world)

        def target_dies() -> None:
            for line in world.store.journal.of(CLICKS, limit=1):
                target = world.store.replicas.live(CLICKS, Slot.SECONDARY)
                if line.step == "HandOver" and target is not None:
                    world.store.replicas.end(target.id, ReplicaState.FAILED, "no room")
            drivers.act()

        steps = migrate(world, CLICKS, "r", Wish(), beat=target_dies)
        handed_over = next(one for one in steps if one.name == "HandOver")
        assert handed_over.found == {"found": NOT_DUE}
        assert primary_of(world).id == old.id


def test_another_migration_is_refused_while_one_is_under_way_and_the_same_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_live_world(tmp_path, monkeypatch) as (worlds, _, drivers):
        with written_anew(worlds, **LARGER) as world:
            next(migrate(world, CLICKS, "first", Wish(), beat=drivers.act))
            other = Wish(protocol=Protocol.LEGACY)
            for refused in (migrate(world, CLICKS, "r", other), None):
                with pytest.raises(PermanentError, match="another migration of clicks"):
                    list(refused or migration_plan(world, CLICKS, other))
        with (
            written_anew(worlds, resources={"driver_memory": "3g"}) as world,
            pytest.raises(PermanentError, match="another migration of clicks"),
        ):
            list(migrate(world, CLICKS, "r", Wish()))
        with written_anew(worlds, **LARGER) as world:
            done = [one.name for one in migrate(world, CLICKS, "r", Wish(), beat=drivers.act)]
            assert done[-1] == "FinishMigration"


def test_a_stream_that_was_stopped_meanwhile_is_not_said_to_be_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_live_world(tmp_path, monkeypatch) as (worlds, _, drivers),
        written_anew(worlds, **LARGER) as world,
    ):
        steps = migrate(world, CLICKS, "r", Wish(), beat=drivers.act)
        next(steps)
        world.store.streams.desire(CLICKS, DesiredState.STOPPED)
        with pytest.raises(PermanentError, match="was not migrated: it was stopped meanwhile"):
            list(steps)
        with pytest.raises(PermanentError, match="does not run"):
            list(migrate(world, CLICKS, "r", Wish()))


def test_a_folder_in_which_no_replica_can_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_live_world(tmp_path, monkeypatch) as (worlds, _, __):
        (tmp_path / "file").touch()
        with (
            written_anew(worlds, resources={"folder": str(tmp_path / "file" / "x")}) as world,
            pytest.raises(PermanentError, match="can have no replicas in"),
        ):
            list(migrate(world, CLICKS, "r", Wish(protocol=Protocol.LEGACY)))
        assert world.store.rollouts.history(CLICKS) == []


def test_what_spark_does_by_itself_may_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = {"spark_conf": {PROVIDER: BINDING[PROVIDER]}}
    with (
        a_live_world(tmp_path, monkeypatch) as (worlds, _, __),
        written_anew(worlds, resources=conf) as world,
    ):
        assert migration_plan(world, CLICKS, Wish())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sink": {"kind": "delta", "path": "elsewhere"}}, "sink"),
        ({"output_mode": "update"}, "output_mode"),
        (
            {"resources": {"spark_conf": {"spark.sql.shuffle.partitions": "7"}}},
            "spark.sql.shuffle.partitions",
        ),
    ],
)
def test_what_a_checkpoint_does_not_survive_is_refused_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], field: str
) -> None:
    with a_live_world(tmp_path, monkeypatch) as (worlds, before, _):
        old, journal = primary_of(before), before.store.journal.of(CLICKS)
        with written_anew(worlds, **change) as world:
            for refused in (migrate(world, CLICKS, "r", Wish()), None):
                with pytest.raises(PermanentError, match=f"cannot be migrated: {field}"):
                    list(refused or migration_plan(world, CLICKS, Wish()))
            assert world.store.rollouts.history(CLICKS) == []
            assert world.store.journal.of(CLICKS) == journal
            assert primary_of(world) == old


def test_a_stream_that_does_not_run_is_started_and_not_migrated(tmp_path: Path) -> None:
    with (
        simulated_worlds(tmp_path).open() as world,
        pytest.raises(PermanentError, match="does not run"),
    ):
        list(migrate(world, CLICKS, "r", Wish()))


def test_one_rollout_is_under_way_at_a_time(tmp_path: Path) -> None:
    with simulated_worlds(tmp_path).open() as world:
        a_wanted_stream(world)
        about = {
            "stream": CLICKS, "target": {}, "tier": "deployed", "protocol": "legacy",
            "within_seconds": 60.0, "may_differ": False, "why": "", "run": "",
        }  # fmt: skip
        rollouts = world.store.rollouts
        first = rollouts.begin(**about)  # type: ignore[arg-type]
        assert first is not None
        assert rollouts.begin(**about) is None  # type: ignore[arg-type]
        rollouts.abandon(CLICKS, first.rollout, "never mind")
        rollouts.finish(CLICKS, first.rollout, "too late")
        assert [(one.done, one.outcome) for one in rollouts.history(CLICKS)] == [
            (False, "never mind")
        ]
        second = rollouts.begin(**about)  # type: ignore[arg-type]
        assert second is not None
        assert (first.rollout, second.rollout) == (1, 2)
