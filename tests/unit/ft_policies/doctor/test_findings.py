"""From what was read of a stream to what is wrong with it: each kind, alone, with its repairs."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.facts import Damage, ExaminedStream, Leftover, LostInput, Skipped
from holdfast.ft_policies.doctor.findings import (
    Cost,
    Finding,
    FindingKind as Kind,
    Repair,
    RepairKind as Mend,
    Severity,
    confirm_findings,
    format_epochs,
    rank_repairs,
    worst_severity,
)
from holdfast.ft_policies.tiers import Guarantee
from tests.builders.doctor_facts import (
    a_checkpoint,
    a_commit,
    a_snapshot,
    a_well_stream,
    records,
    stopped,
)

LOST = LostInput(epoch=9, rows=100, file="9.json", reason="is gone from /in")


def test_nothing_is_wrong_with_a_stream_that_is_well() -> None:
    assert diagnose(a_well_stream()) == []
    assert diagnose(stopped(a_well_stream())) == []
    assert diagnose(ExaminedStream(stream="words")) == []


def test_an_epoch_that_is_planned_and_not_yet_committed_is_no_finding() -> None:
    in_flight = a_checkpoint(offsets=tuple(range(2, 11)))
    assert diagnose(a_well_stream(checkpoint=in_flight)) == []
    begun = a_checkpoint(offsets=(0,), commits=())
    assert diagnose(a_well_stream(checkpoint=begun)) == []
    restored = a_checkpoint(offsets=(7, 8, 9), commits=(7, 8, 9))
    assert diagnose(a_well_stream(checkpoint=restored)) == []


@pytest.mark.parametrize(
    ("changes", "kind", "severity", "epochs"),
    [
        ({"offsets": (2, 3, 5, 6, 7, 8, 9)}, Kind.HOLE_IN_OFFSETS, Severity.WARNING, (4,)),
        ({"offsets": (2, 3, 4, 5, 6, 7, 9)}, Kind.HOLE_IN_OFFSETS, Severity.CRITICAL, (8,)),
        ({"offsets": (9,), "commits": (9,)}, Kind.HOLE_IN_OFFSETS, Severity.CRITICAL, (8,)),
        ({"commits": (2, 3, 5, 6, 7, 8, 9)}, Kind.HOLE_IN_COMMITS, Severity.WARNING, (4,)),
        ({"commits": (2, 3, 4, 5, 6)}, Kind.HOLE_IN_COMMITS, Severity.WARNING, (7, 8)),
        ({"commits": ()}, Kind.HOLE_IN_COMMITS, Severity.WARNING, tuple(range(2, 9))),
        (
            {"offsets": tuple(range(2, 9))},
            Kind.COMMIT_AHEAD_OF_OFFSET,
            Severity.CRITICAL,
            (9,),
        ),
        ({"has_metadata": False}, Kind.MISSING_METADATA, Severity.CRITICAL, ()),
        (
            {"state_damage": (Damage("state/0/0/9.delta", "it is empty"),)},
            Kind.STATE_FILE,
            Severity.CRITICAL,
            (),
        ),
    ],
)
def test_a_live_checkpoint_that_is_damaged_is_replaced_and_a_dead_one_is_a_note(
    changes: dict[str, Any], kind: Kind, severity: Severity, epochs: tuple[int, ...]
) -> None:
    live = a_well_stream(checkpoint=a_checkpoint(**changes))
    (finding,) = diagnose(live)
    assert (finding.kind, finding.severity, finding.epochs) == (kind, severity, epochs)
    (repair,) = finding.repairs
    assert repair.kind is Mend.RESTART_PRIMARY
    assert repair.cost == Cost(epochs_replayed=2, rows_replayed=200, seconds=1.0)
    (dead,) = diagnose(stopped(live))
    assert (dead.kind, dead.severity, dead.repairs) == (kind, Severity.NOTE, ())
    assert "the next replica restores a snapshot" in dead.evidence


UNUSABLE = {
    Kind.MANIFEST_UNREADABLE: {"unreadable": "it is no gzip"},
    Kind.PACK_GONE: {"lost_packs": ("p1",)},
    Kind.PACK_DAMAGED: {"pack_damage": (Damage("pack p1", "it has 3 bytes, not 4"),)},
    Kind.SHIPPED_DAMAGED: {"state_damage": (Damage("state/0/0/3.delta", "it is empty"),)},
}


@pytest.mark.parametrize("kind", list(UNUSABLE))
def test_an_unusable_snapshot_is_set_aside_and_costs_what_the_one_before_replays_more(
    kind: Kind,
) -> None:
    newest = a_snapshot(7, **UNUSABLE[kind])
    (finding,) = diagnose(a_well_stream(snapshots=(newest, a_snapshot(3))))
    assert (finding.kind, finding.severity) == (kind, Severity.WARNING)
    assert finding.where == f"snapshot {newest.id}"
    (repair,) = finding.repairs
    assert repair.kind is Mend.SET_ASIDE_SNAPSHOTS
    assert repair.cost == Cost(epochs_replayed=4, rows_replayed=400, seconds=2.0)
    heals = "the next snapshot of the primary will be complete" in repair.does
    assert heals is (kind is not Kind.SHIPPED_DAMAGED)


def test_an_older_unusable_snapshot_costs_nothing() -> None:
    (finding,) = diagnose(
        a_well_stream(snapshots=(a_snapshot(7), a_snapshot(3, lost_packs=("p",))))
    )
    assert finding.repairs[0].cost == Cost()


def test_without_measurements_the_seconds_are_unknown() -> None:
    newest = a_snapshot(7, lost_packs=("p1",))
    examined = a_well_stream(snapshots=(newest, a_snapshot(3)), rows_per_second=None)
    assert diagnose(examined)[0].repairs[0].cost.seconds is None


def test_with_no_snapshot_left_the_primary_ships_one_or_the_state_is_rebuilt() -> None:
    only = a_well_stream(snapshots=(a_snapshot(7, lost_packs=("p1",)),))
    by_kind = {finding.kind: finding for finding in diagnose(only)}
    assert by_kind[Kind.PACK_GONE].severity is Severity.CRITICAL
    ship, rebuild = by_kind[Kind.NO_SNAPSHOT].repairs
    assert (ship.kind, ship.cost) == (Mend.SHIP_SNAPSHOT, Cost())
    assert rebuild.kind is Mend.REBUILD_STATE
    (elsewhere,) = by_kind[Kind.NO_SNAPSHOT].advice
    assert elsewhere.command.endswith(f"--snapshot {a_snapshot(7).id} --from s3://BUCKET/PREFIX")
    assert elsewhere.cost == Cost(epochs_replayed=2, rows_replayed=200, seconds=1.0)
    by_kind = {finding.kind: finding for finding in diagnose(stopped(only))}
    (rebuild,) = by_kind[Kind.NO_SNAPSHOT].repairs
    assert rebuild.kind is Mend.REBUILD_STATE
    assert rebuild.cost == Cost(epochs_replayed=10, rows_replayed=1000, seconds=5.0)
    expired = replace(stopped(only), lost_input=(LOST,))
    by_kind = {finding.kind: finding for finding in diagnose(expired)}
    assert by_kind[Kind.NO_SNAPSHOT].severity is Severity.CRITICAL
    assert by_kind[Kind.NO_SNAPSHOT].repairs == ()


def test_with_no_snapshot_left_a_pruned_stream_cannot_be_rebuilt() -> None:
    pruned = a_well_stream(
        snapshots=(a_snapshot(7, lost_packs=("p1",)),), records=records(first_kept=5)
    )
    finding = {finding.kind: finding for finding in diagnose(pruned)}[Kind.NO_SNAPSHOT]
    assert finding.severity is Severity.CRITICAL
    assert "those before epoch 5 are pruned" in finding.evidence
    assert [repair.kind for repair in finding.repairs] == [Mend.SHIP_SNAPSHOT]


def test_a_stream_that_never_shipped_lacks_nothing() -> None:
    assert diagnose(a_well_stream(snapshots=())) == []


def test_catalogue_and_object_store_may_disagree_either_way() -> None:
    (finding,) = diagnose(a_well_stream(snapshots=(a_snapshot(7, catalogued=False),)))
    assert (finding.kind, finding.severity) == (Kind.MANIFEST_WITHOUT_ROW, Severity.NOTE)
    assert finding.repairs[0].kind is Mend.ENTER_SNAPSHOTS
    (finding,) = diagnose(a_well_stream(without_manifest=("s9",)))
    assert (finding.kind, finding.severity) == (Kind.ROW_WITHOUT_MANIFEST, Severity.WARNING)
    assert (finding.where, finding.repairs[0].kind) == ("snapshot s9", Mend.MARK_SNAPSHOTS)


def test_expired_input_is_critical_and_a_live_primary_that_is_past_it_ships() -> None:
    (finding,) = diagnose(a_well_stream(lost_input=(LOST,)))
    assert (finding.kind, finding.severity, finding.epochs) == (
        Kind.SOURCE_EXPIRED,
        Severity.CRITICAL,
        (9,),
    )
    assert [repair.kind for repair in finding.repairs] == [Mend.SHIP_SNAPSHOT]
    behind = a_well_stream(lost_input=(LOST,), primary_epoch=8)  # it replays what is in the ledger
    assert diagnose(behind)[0].repairs == (), "nothing is skipped under its feet"
    assert "holdfast stop words" in diagnose(behind)[0].evidence
    some = a_well_stream(lost_input=(LOST, replace(LOST, epoch=11)))
    assert [repair.kind for repair in diagnose(some)[0].repairs] == [Mend.SHIP_SNAPSHOT]


@pytest.mark.parametrize("guarantee", Guarantee)
def test_lost_input_can_be_given_up_and_the_loss_is_counted_to_the_row(
    guarantee: Guarantee,
) -> None:
    lost = (LOST, replace(LOST, file="9b.json"), replace(LOST, epoch=8, rows=50))
    (finding,) = diagnose(stopped(a_well_stream(lost_input=lost, guarantee=guarantee)))
    assert finding.epochs == (8, 9)
    assert "250 rows after the newest good snapshot cannot be read again" in finding.evidence
    (skip,) = finding.repairs
    assert (skip.kind, skip.cost.epochs_skipped, skip.cost.rows_lost) == (Mend.SKIP_INPUT, 2, 250)
    assert skip.by_name is (guarantee is not Guarantee.GAP)


def test_nothing_is_given_up_while_it_is_not_known_what_is_out() -> None:
    merged = records(unentered=(replace(a_commit(9), rows=None),))
    examined = stopped(a_well_stream(lost_input=(LOST,), records=merged))
    by_kind = {finding.kind: finding for finding in diagnose(examined)}
    assert by_kind[Kind.SOURCE_EXPIRED].repairs == ()


def test_what_was_given_up_is_not_forgotten() -> None:
    gap = Skipped(gap=1, run="cli-1", epochs=(4, 5), files=3, rows=150, last_entered=8)
    (finding,) = diagnose(a_well_stream(skipped=(gap,)))
    assert (finding.kind, finding.severity, finding.epochs) == (
        Kind.INPUT_SKIPPED,
        Severity.NOTE,
        (4, 5),
    )
    assert "150 rows in 3 files; the output up to epoch 8 contains them" in finding.evidence


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"undecided": (4,)}, Kind.HOLE_IN_EPOCH_LOG),
        ({"unknown": (4,)}, Kind.ENTRY_WITHOUT_EPOCH),
        ({"missing": (0, 4)}, Kind.HOLE_IN_LEDGER),
    ],
)
def test_what_only_a_backup_mends_is_critical_and_says_so(
    changes: dict[str, Any], kind: Kind
) -> None:
    (finding,) = diagnose(a_well_stream(records=records(**changes)))
    assert (finding.kind, finding.severity) == (kind, Severity.CRITICAL)
    assert (finding.repairs, finding.advice) == ((), ())
    assert "restore the control store from a backup" in finding.evidence


def test_an_epoch_that_only_the_table_has_is_entered() -> None:
    (finding,) = diagnose(a_well_stream(records=records(unentered=(a_commit(4), a_commit(5)))))
    assert (finding.kind, finding.severity) == (Kind.WRITTEN_NOT_ENTERED, Severity.CRITICAL)
    assert (finding.epochs, finding.repairs[0].kind) == ((4, 5), Mend.ENTER_EPOCHS)


def test_the_newest_epoch_that_only_the_table_has_is_entered_by_the_next_replica() -> None:
    last = records(last_entered=8, unentered=(a_commit(9),))
    (finding,) = diagnose(a_well_stream(records=last))
    assert finding.severity is Severity.NOTE
    assert "the next replica adds it by itself" in finding.evidence


def test_an_epoch_in_merged_files_cannot_be_entered() -> None:
    (finding,) = diagnose(a_well_stream(records=records(unentered=(a_commit(4, rows=None),))))
    assert (finding.severity, finding.repairs) == (Severity.CRITICAL, ())


def test_epochs_that_the_table_lost_at_its_end_are_replayed_when_the_stream_is_stopped() -> None:
    torn = a_well_stream(records=records(newest_written=5, unwritten=(6, 7, 8, 9)))
    (finding,) = diagnose(torn)
    assert (finding.kind, finding.severity) == (Kind.ENTERED_NOT_WRITTEN, Severity.CRITICAL)
    assert finding.repairs == ()
    assert "`holdfast stop words`" in finding.evidence
    (finding,) = diagnose(stopped(torn))
    (repair,) = finding.repairs
    assert repair.kind is Mend.REPLAY_OUTPUT
    assert repair.cost == Cost(epochs_replayed=6, rows_replayed=600, seconds=3.0)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"unwritten": (4,)}, Kind.ENTERED_NOT_WRITTEN),
        ({"missing": (4,)}, Kind.HOLE_IN_LEDGER),
        ({"unentered": (a_commit(4, rows=None),)}, Kind.WRITTEN_NOT_ENTERED),
        ({"newest_written": 3, "unwritten": (4, 5, 6, 7, 8, 9)}, Kind.ENTERED_NOT_WRITTEN),
    ],
)
def test_what_a_restore_mends_is_advised_with_what_is_computed_again(
    changes: dict[str, Any], kind: Kind
) -> None:
    (finding,) = diagnose(a_well_stream(records=records(**changes)))
    assert (finding.kind, finding.severity, finding.repairs) == (kind, Severity.CRITICAL, ())
    (advice,) = finding.advice
    assert advice.command == "holdfast restore words --epoch 3"
    assert advice.cost == Cost(epochs_replayed=6, rows_replayed=600, seconds=3.0)


def test_a_restore_is_not_advised_across_a_hole_in_the_epoch_log() -> None:
    holes = records(missing=(4,), undecided=(6,))
    assert all(finding.advice == () for finding in diagnose(a_well_stream(records=holes)))
    before = records(missing=(4,), undecided=(2,))  # the snapshot after 3 needs it no more
    by_kind = {finding.kind: finding for finding in diagnose(a_well_stream(records=before))}
    assert by_kind[Kind.HOLE_IN_LEDGER].advice != ()


def test_leftovers_are_notes() -> None:
    staged = [Leftover(path=f"/t/data/{n}", of="epoch 1", staging=True) for n in range(5)]
    folder = Leftover(path="/home/drills/x", of="a drill that was interrupted")
    findings = diagnose(a_well_stream(leftovers=(*staged, folder)))
    assert [finding.kind for finding in findings] == [Kind.LEFTOVER_STAGING, Kind.LEFTOVER_FOLDER]
    assert {finding.severity for finding in findings} == {Severity.NOTE}
    assert "0, 1, 2 and 2 more" in findings[0].evidence
    assert {finding.repairs[0].kind for finding in findings} == {Mend.SET_ASIDE_LEFTOVERS}


def test_the_worst_comes_first_and_counts() -> None:
    examined = a_well_stream(
        snapshots=(a_snapshot(7, catalogued=False),), records=records(undecided=(3,))
    )
    findings = diagnose(examined)
    assert [finding.severity for finding in findings] == [Severity.CRITICAL, Severity.NOTE]
    assert worst_severity(findings) is Severity.CRITICAL
    assert worst_severity([]) is None


def test_what_only_one_of_two_looks_shows_was_in_flight() -> None:
    def finding(*epochs: int, where: str = "ledger") -> Finding:
        return Finding(
            kind=Kind.WRITTEN_NOT_ENTERED,
            severity=Severity.NOTE,
            where=where,
            evidence="",
            epochs=epochs,
        )

    assert confirm_findings([finding(4)], [finding(5)]) == []
    assert confirm_findings([finding(4)], []) == []
    assert confirm_findings([], [finding(4)]) == []
    assert confirm_findings([finding(3, 4)], [finding(3, 5)]) == [finding(3)]
    assert confirm_findings([finding(where="a")], [finding(where="a")]) == [finding(where="a")]
    assert confirm_findings([finding(where="a")], [finding(where="b")]) == []


def test_repairs_that_lose_nothing_come_first_then_the_cheapest() -> None:
    def repair(kind: Mend, **cost: Any) -> Repair:
        return Repair(kind=kind, does="", cost=Cost(**cost), undo="")

    skip = repair(Mend.MARK_SNAPSHOTS, epochs_skipped=1, rows_lost=5)
    slow = repair(Mend.REBUILD_STATE, epochs_replayed=9, rows_replayed=900, seconds=9.0)
    unknown = repair(Mend.REPLAY_OUTPUT, epochs_replayed=1, rows_replayed=10, seconds=None)
    free = repair(Mend.SHIP_SNAPSHOT)
    assert rank_repairs([skip, unknown, slow, free]) == (free, slow, unknown, skip)


@pytest.mark.parametrize(
    ("epochs", "text"),
    [
        ((7,), "epoch 7"),
        ((4, 5, 6), "epochs 4 to 6"),
        ((4, 5, 9, 11, 12), "epochs 4 to 5, 9, 11 to 12"),
    ],
)
def test_epochs_are_listed_in_runs(epochs: tuple[int, ...], text: str) -> None:
    assert format_epochs(epochs) == text


def test_every_kind_has_a_sentence() -> None:
    assert all(kind.sentence.endswith(".") for kind in Kind)
