"""A stream in memory whose repair can be killed before or after any action."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.facts import Examined
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
from tests.fakes.examined import a_checkpoint, a_snapshot
from tests.fakes.stream import Crash

NEXT = "words-2"


@dataclass
class SimulatedPatient:
    """The world as the repair playbook sees it; every action may be repeated.

    `die` names the actions, by their number over all runs, before or after which the run dies.
    """

    seen: Examined
    die: dict[int, str] = field(default_factory=dict)
    acted: int = 0
    steps: list[RepairStep] = field(default_factory=list)

    def facts(self, chosen: RepairKind | None) -> RepairFacts:
        return RepairFacts(examined=self.seen, findings=diagnose(self.seen), chosen=chosen)

    def repair(self, chosen: RepairKind | None) -> Iterator[RepairStep]:
        while (step := next_step(self.facts(chosen))) is not None:
            self.acted += 1
            assert self.acted < 50, f"it does not end: {step}"
            fate = self.die.get(self.acted)
            if fate == "before":
                raise Crash
            self.seen = after(self.seen, step)
            self.steps.append(step)
            if fate == "after":
                raise Crash
            yield step


def after(seen: Examined, step: RepairStep) -> Examined:
    """The stream once a step is done."""
    match step:
        case EnterEpochs():
            return _entered(seen, step)
        case SkipInput():
            return replace(seen, lost_input=())
        case EndPrimary():
            checkpoint = seen.checkpoint and replace(seen.checkpoint, live=False)
            return replace(seen, primary=None, ended_by_doctor=True, checkpoint=checkpoint)
        case BringBack():
            fresh = a_checkpoint(replica=NEXT, where="/home/next")
            return replace(seen, primary=NEXT, ended_by_doctor=False, checkpoint=fresh)
        case SetAsideLeftovers():
            kept = tuple(one for one in seen.leftovers if one.path not in step.paths)
            return replace(seen, leftovers=kept)
        case _:
            return _snapshots_after(seen, step)


def _entered(seen: Examined, step: EnterEpochs) -> Examined:
    records = seen.records
    left = tuple(one for one in records.unentered if one not in step.commits)
    last = max(records.last_entered, *(one.epoch for one in step.commits))
    return replace(seen, records=replace(records, unentered=left, last_entered=last))


def _snapshots_after(
    seen: Examined, step: SetAsideSnapshots | EnterSnapshots | MarkSnapshots | ShipSnapshot
) -> Examined:
    match step:
        case SetAsideSnapshots():
            kept = tuple(one for one in seen.snapshots if one.id not in step.snapshots)
            return replace(seen, snapshots=kept)
        case EnterSnapshots():
            entered = tuple(
                replace(one, catalogued=one.catalogued or one.id in step.snapshots)
                for one in seen.snapshots
            )
            return replace(seen, snapshots=entered)
        case MarkSnapshots():
            left = tuple(one for one in seen.without_manifest if one not in step.snapshots)
            return replace(seen, without_manifest=left)
        case ShipSnapshot():
            assert seen.primary is not None, "only a live primary ships"
            shipped = a_snapshot(9, id=f"{9:012d}-2-{seen.primary}", replica=seen.primary)
            return replace(seen, snapshots=(shipped, *seen.snapshots), lost_input=())
