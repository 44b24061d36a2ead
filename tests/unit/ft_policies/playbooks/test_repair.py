"""The repair playbook: which step is due, and that it ends the same wherever it is cut short."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.facts import Damage, ExaminedStream, Leftover, LostInput
from holdfast.ft_policies.doctor.findings import RepairKind as Mend, Severity, worst_severity
from holdfast.ft_policies.playbooks.base import plan_steps
from holdfast.ft_policies.playbooks.repair import (
    BringBack,
    EndPrimary,
    EnterEpochs,
    EnterSnapshots,
    MarkSnapshots,
    RepairFacts,
    SetAsideLeftovers,
    SetAsideSnapshots,
    ShipSnapshot,
    SkipInput,
    due_repairs,
    next_step,
)
from holdfast.ft_policies.tiers import Guarantee
from tests.builders.doctor_facts import (
    PRIMARY,
    a_checkpoint,
    a_commit,
    a_snapshot,
    a_well_stream,
    records,
    stopped,
)
from tests.fakes.repair import SimulatedRepair
from tests.fakes.stream import Crash

OLD, NEW = a_snapshot(3), a_snapshot(7)
LOST = replace(NEW, lost_packs=("p1",))
STAGED = Leftover(path="/t/data/1", of="epoch 1", staging=True)
DRILL = Leftover(path="/home/drills/x", of="a drill")
EXPIRED = LostInput(epoch=9, rows=100, file="9.json", reason="is gone")
DAMAGED = a_checkpoint(state_damage=(Damage("state/0/0/9.delta", "it is empty"),))
SHIPPED_SO = replace(NEW, state_damage=DAMAGED.state_damage)

DAMAGES: dict[str, dict[str, object]] = {
    "checkpoint": {"checkpoint": DAMAGED},
    "checkpoint and snapshot": {"checkpoint": DAMAGED, "snapshots": (SHIPPED_SO, OLD)},
    "newest snapshot": {"snapshots": (LOST, OLD)},
    "all snapshots": {"snapshots": (LOST, replace(OLD, unreadable="no gzip"))},
    "row": {"without_manifest": ("s5",)},
    "source": {"lost_input": (EXPIRED,)},
    "ledger": {"records": records(unentered=(a_commit(4), a_commit(5)))},
    "leftovers": {"leftovers": (STAGED, DRILL)},
}


def steps_of(examined: ExaminedStream, chosen: Mend | None = None) -> list[object]:
    facts = RepairFacts(examined=examined, findings=diagnose(examined), chosen=chosen)
    return list(plan_steps(facts, next_step))


def test_a_damaged_checkpoint_ends_its_primary_and_the_stream_is_brought_back() -> None:
    simulated = SimulatedRepair(a_well_stream(checkpoint=DAMAGED))
    assert list(simulated.repair(None)) == [EndPrimary(PRIMARY), BringBack()]
    assert diagnose(simulated.examined) == []


@pytest.mark.parametrize("chosen", [None, Mend.RESTART_PRIMARY])
def test_a_snapshot_with_the_primarys_damage_is_set_aside_before_another_would_restore_it(
    chosen: Mend | None,
) -> None:
    examined = a_well_stream(checkpoint=DAMAGED, snapshots=(SHIPPED_SO, OLD))
    assert diagnose(examined)[0].repairs[0].cost.epochs_replayed == 9 - OLD.epoch
    simulated = SimulatedRepair(examined)
    steps = [SetAsideSnapshots((NEW.id,)), EndPrimary(PRIMARY), BringBack()]
    assert list(simulated.repair(chosen)) == steps
    assert simulated.examined.newest_good == OLD


def test_a_stream_that_is_not_wanted_is_not_brought_back() -> None:
    leaving = a_well_stream(checkpoint=DAMAGED, wanted=False)
    assert list(SimulatedRepair(leaving).repair(None)) == [EndPrimary(PRIMARY)]


def test_a_stream_that_failed_by_itself_is_left_to_its_recovery() -> None:
    down = a_well_stream(primary=None, checkpoint=None, leftovers=(STAGED,))
    assert steps_of(down) == [SetAsideLeftovers((STAGED.path,))]


def test_only_what_was_chosen_is_mended() -> None:
    examined = a_well_stream(
        snapshots=(LOST, replace(OLD, catalogued=False)), leftovers=(STAGED, DRILL)
    )
    assert steps_of(examined, Mend.SET_ASIDE_SNAPSHOTS) == [SetAsideSnapshots((LOST.id,))]
    assert steps_of(examined, Mend.ENTER_SNAPSHOTS) == [EnterSnapshots((OLD.id,))]
    assert steps_of(examined, Mend.SET_ASIDE_LEFTOVERS) == [
        SetAsideLeftovers((STAGED.path, DRILL.path))
    ]
    assert steps_of(examined, Mend.RESTART_PRIMARY) == []
    assert [type(step) for step in steps_of(examined)] == [
        SetAsideSnapshots,
        EnterSnapshots,
        SetAsideLeftovers,
    ]


def test_a_primary_ships_only_after_what_it_would_build_on_is_set_aside() -> None:
    foreign = replace(OLD, replica="words-0", lost_packs=("p0",))
    examined = a_well_stream(snapshots=(LOST, foreign))
    simulated = SimulatedRepair(examined)
    done = list(simulated.repair(Mend.SHIP_SNAPSHOT))
    assert done == [SetAsideSnapshots((LOST.id,)), ShipSnapshot()]


def test_state_is_rebuilt_from_the_epoch_log_alone_by_the_next_start() -> None:
    simulated = SimulatedRepair(stopped(a_well_stream(snapshots=(LOST,))))
    assert list(simulated.repair(Mend.REBUILD_STATE)) == [SetAsideSnapshots((LOST.id,))]
    assert diagnose(simulated.examined) == []


def test_what_hides_lost_output_is_set_aside() -> None:
    torn = stopped(a_well_stream(records=records(newest_written=5, unwritten=(6, 8))))
    simulated = SimulatedRepair(torn)
    assert list(simulated.repair(None)) == [SetAsideSnapshots((NEW.id,))]
    assert simulated.examined.newest_good == OLD


def test_the_ledger_comes_first_and_the_stream_last() -> None:
    examined = a_well_stream(**{k: v for damage in DAMAGES.values() for k, v in damage.items()})
    simulated = SimulatedRepair(examined)
    assert [type(step) for step in simulated.repair(None)] == [
        EnterEpochs,
        SetAsideSnapshots,
        MarkSnapshots,
        SetAsideLeftovers,
        ShipSnapshot,
        EndPrimary,
        BringBack,
    ], "and the primary, whose state no other replica can have, ships it before it is ended"
    assert diagnose(simulated.examined) == []


def test_what_is_lost_is_given_up_unasked_only_where_gaps_are_allowed() -> None:
    precise = stopped(a_well_stream(lost_input=(EXPIRED,)))
    assert steps_of(precise) == []
    assert steps_of(precise, Mend.SKIP_INPUT) == [SkipInput((EXPIRED,))]
    assert steps_of(replace(precise, guarantee=Guarantee.GAP)) == [SkipInput((EXPIRED,))]


def test_a_state_with_neither_snapshot_nor_input_is_rebuilt_from_what_is_left() -> None:
    nothing_left = stopped(a_well_stream(snapshots=(LOST,), lost_input=(EXPIRED,)))
    simulated = SimulatedRepair(replace(nothing_left, guarantee=Guarantee.GAP))
    assert list(simulated.repair(None)) == [SkipInput((EXPIRED,)), SetAsideSnapshots((LOST.id,))]
    assert diagnose(simulated.examined) == []


def test_a_primary_is_not_ended_while_it_is_unknown_whether_another_could_read_its_input() -> None:
    examined = a_well_stream(checkpoint=DAMAGED, source_away="the folder is not there")
    assert steps_of(examined) == []
    none_left = stopped(a_well_stream(snapshots=(LOST,), source_away="the folder is not there"))
    assert steps_of(none_left, Mend.REBUILD_STATE) == []


def test_without_a_finding_nothing_is_due() -> None:
    assert next_step(RepairFacts(examined=a_well_stream(), findings=[])) is None
    assert due_repairs([], Mend.SHIP_SNAPSHOT) == {}


@given(
    st.sets(st.sampled_from(sorted(DAMAGES))),
    st.sampled_from([None, *Mend]),
    st.dictionaries(st.integers(1, 9), st.sampled_from(["before", "after"])),
    st.sampled_from(["live", "stopped"]),
    st.sampled_from(Guarantee),
)
def test_a_repair_that_is_cut_short_anywhere_ends_as_one_that_is_not(
    damages: set[str], chosen: Mend | None, die: dict[int, str], runs: str, guarantee: Guarantee
) -> None:
    facts = {key: value for name in damages for key, value in DAMAGES[name].items()}
    examined = a_well_stream(guarantee=guarantee, **facts)
    examined = stopped(examined) if runs == "stopped" else examined
    whole, cut = SimulatedRepair(examined), SimulatedRepair(examined, die)
    list(whole.repair(chosen))
    for _ in range(len(die) + 1):
        with suppress(Crash):
            list(cut.repair(chosen))
    assert cut.examined == whole.examined
    assert list(cut.repair(chosen)) == []


@given(st.sets(st.sampled_from(sorted(DAMAGES))))
def test_a_live_stream_is_well_after_all_of_its_repairs(damages: set[str]) -> None:
    facts = {key: value for name in damages for key, value in DAMAGES[name].items()}
    simulated = SimulatedRepair(a_well_stream(**facts))
    list(simulated.repair(None))
    assert worst_severity(diagnose(simulated.examined)) in (None, Severity.NOTE)


@pytest.mark.parametrize(
    "step",
    [
        EnterEpochs((a_commit(4), a_commit(5))),
        EndPrimary("r1"),
        SetAsideSnapshots(("s1", "s2")),
        EnterSnapshots(("s1",)),
        MarkSnapshots(("s1",)),
        SetAsideLeftovers(("/x",)),
        BringBack(),
        ShipSnapshot(),
        SkipInput((EXPIRED,)),
    ],
)
def test_every_step_says_what_it_does(step: EndPrimary) -> None:
    assert step.describe()
