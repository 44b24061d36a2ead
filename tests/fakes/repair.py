"""A stream in memory whose repair can be killed before or after any action."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.facts import ExaminedStream
from holdfast.ft_policies.doctor.findings import RepairKind
from holdfast.ft_policies.playbooks.repair import (
    BringBack,
    EndPrimary,
    EnterEpochs,
    EnterSnapshots,
    MarkSnapshots,
    RepairFacts,
    RepairStep,
    SetAsideLeftovers,
    SetAsideSnapshots,
    ShipSnapshot,
    SkipInput,
    next_step,
)
from tests.builders.doctor_facts import a_checkpoint, a_snapshot
from tests.fakes.stream import Crash

NEXT = "words-2"


@dataclass
class SimulatedRepair:
    """The stream as the repair playbook sees it; every action may be repeated.

    `die` names the actions, by their number over all runs, before or after which the run dies.
    """

    examined: ExaminedStream
    die: dict[int, str] = field(default_factory=dict)
    acted: int = 0
    steps: list[RepairStep] = field(default_factory=list)

    def facts(self, chosen: RepairKind | None) -> RepairFacts:
        return RepairFacts(examined=self.examined, findings=diagnose(self.examined), chosen=chosen)

    def repair(self, chosen: RepairKind | None) -> Iterator[RepairStep]:
        while (step := next_step(self.facts(chosen))) is not None:
            self.acted += 1
            assert self.acted < 50, f"it does not end: {step}"
            fate = self.die.get(self.acted)
            if fate == "before":
                raise Crash
            self.examined = after(self.examined, step)
            self.steps.append(step)
            if fate == "after":
                raise Crash
            yield step


def after(examined: ExaminedStream, step: RepairStep) -> ExaminedStream:
    """The stream once a step is done."""
    match step:
        case EnterEpochs():
            return _entered(examined, step)
        case SkipInput():
            return replace(examined, lost_input=())
        case EndPrimary():
            checkpoint = examined.checkpoint and replace(examined.checkpoint, live=False)
            return replace(examined, primary=None, ended_by_doctor=True, checkpoint=checkpoint)
        case BringBack():
            fresh = a_checkpoint(replica=NEXT, where="/home/next")
            return replace(examined, primary=NEXT, ended_by_doctor=False, checkpoint=fresh)
        case SetAsideLeftovers():
            kept = tuple(
                leftover for leftover in examined.leftovers if leftover.path not in step.paths
            )
            return replace(examined, leftovers=kept)
        case _:
            return _snapshots_after(examined, step)


def _entered(examined: ExaminedStream, step: EnterEpochs) -> ExaminedStream:
    records = examined.records
    left = tuple(commit for commit in records.unentered if commit not in step.commits)
    last = max(records.last_entered, *(commit.epoch for commit in step.commits))
    return replace(examined, records=replace(records, unentered=left, last_entered=last))


def _snapshots_after(
    examined: ExaminedStream,
    step: SetAsideSnapshots | EnterSnapshots | MarkSnapshots | ShipSnapshot,
) -> ExaminedStream:
    match step:
        case SetAsideSnapshots():
            kept = tuple(
                snapshot for snapshot in examined.snapshots if snapshot.id not in step.snapshots
            )
            return replace(examined, snapshots=kept)
        case EnterSnapshots():
            entered = tuple(
                replace(snapshot, catalogued=snapshot.catalogued or snapshot.id in step.snapshots)
                for snapshot in examined.snapshots
            )
            return replace(examined, snapshots=entered)
        case MarkSnapshots():
            left = tuple(
                snapshot for snapshot in examined.without_manifest if snapshot not in step.snapshots
            )
            return replace(examined, without_manifest=left)
        case ShipSnapshot():
            assert examined.primary is not None, "only a live primary ships"
            shipped = a_snapshot(9, id=f"{9:012d}-2-{examined.primary}", replica=examined.primary)
            return replace(examined, snapshots=(shipped, *examined.snapshots), lost_input=())
