"""Migrations of a stream whose drivers are simulated: how a target gets the lease, or is let go."""

from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Switch
from holdfast.orchestration.playbooks import migrate_steps
from holdfast.orchestration.playbooks.base import StepSkipped
from holdfast.orchestration.playbooks.migrate import Migrate, MigrationRequest
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import EndedBy, Phase, ReplicaState, Slot
from holdfast.resources.priority import GIVING_WAY
from holdfast.streaming.spec import ReplicaSpec
from tests.builders.checkpoints import SyntheticCheckpoint
from tests.builders.control_rows import an_entry
from tests.builders.doctor_stream import ship
from tests.builders.playbooks import (
    LARGER,
    a_recovered_project,
    memory_of,
    primary_of,
    redeclared_project,
    run_recovery,
)
from tests.builders.streams import CLICKS, commit_epochs
from tests.waiting import wait_until


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("tier", ["passive_replication", "active_standby"])
def test_a_stream_runs_by_what_is_declared_now_and_so_does_its_secondary(
    tmp_path: Path, protocol: Protocol, tier: str
) -> None:
    with a_recovered_project(tmp_path, tier=tier) as (projects, before, drivers):
        old = primary_of(before)
        with redeclared_project(projects, tier=tier, **LARGER) as project:
            request = MigrationRequest(protocol=protocol)
            done = [
                step.name
                for step in Migrate(
                    project, CLICKS, "r", request=request, keep_alive=drivers.act
                ).steps()
            ]
            assert "FinishMigration" in done
            assert primary_of(project).id != old.id
            assert memory_of(project) == "2g"
            live = project.store.replicas.of(CLICKS)
            assert {row.rollout for row in live} == {1}
            assert {row.slot for row in live} == (
                {Slot.PRIMARY} if tier == "passive_replication" else {Slot.PRIMARY, Slot.SECONDARY}
            )
            [migration] = project.store.migrations.history(CLICKS)
            assert (migration.done, migration.why) == (True, "requested")
            assert list(Migrate(project, CLICKS, "r2", request=MigrationRequest()).steps()) == [], (
                "there is nothing left to do"
            )


def test_a_migration_whose_run_dies_is_finished_by_the_next_run(tmp_path: Path) -> None:
    with (
        a_recovered_project(tmp_path) as (projects, _, drivers),
        redeclared_project(projects, **LARGER) as project,
    ):
        steps = Migrate(
            project, CLICKS, "first", request=MigrationRequest(), keep_alive=drivers.act
        ).steps()
        assert next(steps).name == "LaunchSecondary"
        steps.close()  # type: ignore[attr-defined]
        assert "FinishMigration" in run_recovery(drivers), "the recovery sensor's run does it, too"
        assert memory_of(project) == "2g"


def test_a_target_that_is_not_level_in_time_is_let_go_and_the_primary_goes_on(
    tmp_path: Path,
) -> None:
    with a_recovered_project(tmp_path) as (projects, before, drivers):
        old = primary_of(before)
        with redeclared_project(projects, **LARGER) as project:
            steps = Migrate(
                project,
                CLICKS,
                "r",
                request=MigrationRequest(within_seconds=0.0),
                keep_alive=drivers.act,
            ).steps()
            with pytest.raises(
                PermanentError, match="rolled back: the target did not catch up in time"
            ):
                list(steps)
            assert primary_of(project).id == old.id
            assert memory_of(project) == "1g"
            assert project.store.replicas.live(CLICKS, Slot.SECONDARY) is None


@pytest.mark.parametrize(
    ("protocol", "nice", "seconds"),
    [(Protocol.INTERRUPTION_FREE, GIVING_WAY, 50.0), (Protocol.REPLAY, 0, None)],
)
def test_a_target_gives_way_for_half_its_time_to_a_primary_that_is_not_to_be_slowed_down(
    tmp_path: Path,
    protocol: Protocol,
    nice: int,
    seconds: float | None,
) -> None:
    with (
        a_recovered_project(tmp_path) as (projects, _, drivers),
        redeclared_project(projects, **LARGER) as project,
    ):
        request = MigrationRequest(protocol=protocol, within_seconds=100.0)
        list(Migrate(project, CLICKS, "r", request=request, keep_alive=drivers.act).steps())
        old, new = (
            ReplicaSpec.load(Path(row.folder))
            for row in sorted(
                project.store.replicas.of(CLICKS, live=False), key=lambda row: row.rollout
            )
        )
        assert (old.nice, new.nice) == (0, nice)
        assert old.nice_seconds is None
        assert new.nice_seconds == pytest.approx(seconds, abs=5.0)


@pytest.mark.parametrize(
    ("protocol", "waits"), [(Protocol.REPLAY, False), (Protocol.INTERRUPTION_FREE, True)]
)
def test_only_a_target_that_replays_gets_the_lease_before_it_is_at_work_on_the_last_epoch(
    tmp_path: Path, protocol: Protocol, *, waits: bool
) -> None:
    slow = {"epoch": {"seconds": "10s", "silence": "10ms"}}
    with (
        a_recovered_project(tmp_path, **slow) as (projects, _, drivers),
        redeclared_project(projects, **slow, **LARGER) as project,
    ):
        commits = looks = 0

        def is_behind_for_a_while() -> None:
            nonlocal commits, looks
            commits += 1
            commit_epochs(project, commits)
            target = project.store.replicas.live(CLICKS, Slot.SECONDARY)
            if target is not None and commits > 2:
                project.store.ledger.commit(an_entry(commits - 3, stream=CLICKS, replica=target.id))
            [last] = project.store.journal.of(CLICKS, limit=1)
            looks += (last.step, last.phase) == ("HandOver", Phase.INTENT)
            drivers.epoch = commits - (4 if looks < 5 else 3)
            drivers.act()

        request = MigrationRequest(protocol=protocol, may_differ=True)
        steps = Migrate(
            project, CLICKS, "r", request=request, keep_alive=is_behind_for_a_while
        ).steps()
        handed_over = next(step for step in steps if step.name == "HandOver")
        assert "epoch" in handed_over.result.as_dict()
        assert (looks >= 5) is waits


def test_a_replay_that_never_comes_near_gets_the_lease_when_half_of_the_time_is_over(
    tmp_path: Path,
) -> None:
    """Though its switch `process` has never been seen on, which means that it has caught up."""
    with (
        a_recovered_project(tmp_path) as (projects, _, drivers),
        redeclared_project(projects, **LARGER) as project,
    ):
        commit_epochs(project, 300)
        drivers.stuck = Switch.PROCESS

        def is_far_behind() -> None:
            target = project.store.replicas.live(CLICKS, Slot.SECONDARY)
            if target is not None:
                project.store.ledger.commit(
                    an_entry(0, stream=CLICKS, replica=target.id, digest="d0")
                )
                drivers.epoch = 0
            drivers.act()

        request = MigrationRequest(protocol=Protocol.REPLAY, within_seconds=6.0)
        steps = Migrate(project, CLICKS, "r", request=request, keep_alive=is_far_behind).steps()
        names = [step.name for step in steps]
        assert names.index("HandOver") < names.index("FinishMigration")


@pytest.mark.parametrize(("pace", "fresh"), [("20s", True), ("1ms", False)])
def test_a_commit_is_fresh_for_a_part_of_the_pace(
    tmp_path: Path, pace: str, *, fresh: bool
) -> None:
    with a_recovered_project(tmp_path, epoch={"seconds": pace}) as (_, project, __):
        commit_epochs(project, 1)
        last = project.store.ledger.last(CLICKS)
        assert last is not None
        watch = StreamWaiter(project=project, stream=CLICKS, began_at=0.0)
        wait_until(lambda: migrate_steps._is_fresh(watch, last) is fresh)


def test_time_is_also_over_while_a_switch_turns(tmp_path: Path) -> None:
    with a_recovered_project(tmp_path) as (projects, before, drivers):
        old, drivers.turns = primary_of(before), False
        with redeclared_project(projects, **LARGER) as project:
            steps = Migrate(
                project,
                CLICKS,
                "r",
                request=MigrationRequest(within_seconds=0.5),
                keep_alive=drivers.act,
            ).steps()
            assert [next(steps).name, next(steps).name] == ["LaunchSecondary", "TurnSwitch"]
            with pytest.raises(
                PermanentError, match="rolled back: the target did not catch up in time"
            ):
                list(steps)
            assert primary_of(project).id == old.id


def test_targets_that_fail_one_after_the_other_are_given_up(tmp_path: Path) -> None:
    with a_recovered_project(tmp_path) as (projects, before, drivers):
        old, drivers.failing = primary_of(before), 3
        with redeclared_project(projects, **LARGER) as project:
            steps = Migrate(
                project, CLICKS, "r", request=MigrationRequest(), keep_alive=drivers.act
            ).steps()
            with pytest.raises(PermanentError, match="rolled back: the target failed: no room"):
                list(steps)
            assert drivers.failing == 0
            assert primary_of(project).id == old.id
            rows = project.store.replicas.of(CLICKS, live=False)
            targets = sorted(
                (row for row in rows if row.rollout), key=lambda row: row.registered_at
            )
            nices = [ReplicaSpec.load(Path(row.folder)).nice for row in targets]
            assert nices == [GIVING_WAY, 0, 0], "the first may have been too slow"


def test_after_a_rollback_no_replica_goes_on_from_what_the_target_has_shipped(
    tmp_path: Path,
) -> None:
    with a_recovered_project(tmp_path) as (projects, before, drivers):
        old, checkpoint = primary_of(before), SyntheticCheckpoint(tmp_path / "checkpoint")
        checkpoint.commit()
        ship(before, checkpoint, old.id)
        with redeclared_project(projects, **LARGER) as project:
            steps = Migrate(
                project,
                CLICKS,
                "r",
                request=MigrationRequest(protocol=Protocol.LEGACY),
                keep_alive=drivers.act,
            ).steps()
            assert "Launch" in (step.name for step in steps)
            target = primary_of(project)
            checkpoint.commit()
            ship(project, checkpoint, target.id)
            differing = {"reason": "epoch 1 differs"}
            key = f"{CLICKS}/{target.id}/digest"
            project.store.incidents.open(
                stream=CLICKS,
                key=key,
                kind=IncidentKind.DIGEST_DIFFERS,
                replica=target.id,
                detail=differing,
            )
            with pytest.raises(PermanentError, match="computes other results: epoch 1 differs"):
                list(steps)
            assert primary_of(project).rollout == 0
            assert [snapshot.replica for snapshot in project.vault(CLICKS).list()] == [old.id]
            assert [row.replica for row in project.store.snapshots.of(CLICKS)] == [old.id]


def test_a_hand_over_is_put_off_while_the_target_is_late(tmp_path: Path) -> None:
    """The moment at which it is well is waited for; one that dies meanwhile gets nothing."""
    with (
        a_recovered_project(tmp_path) as (projects, _, drivers),
        redeclared_project(projects, **LARGER) as project,
    ):
        old = primary_of(project)

        def target_dies() -> None:
            for line in project.store.journal.of(CLICKS, limit=1):
                target = project.store.replicas.live(CLICKS, Slot.SECONDARY)
                if line.step == "HandOver" and target is not None:
                    project.store.replicas.end(
                        target.id, ReplicaState.FAILED, "no room", by=EndedBy.REPLICA
                    )
            drivers.act()

        steps = Migrate(
            project, CLICKS, "r", request=MigrationRequest(), keep_alive=target_dies
        ).steps()
        handed_over = next(step for step in steps if step.name == "HandOver")
        assert handed_over.result == StepSkipped()
        assert primary_of(project).id == old.id
