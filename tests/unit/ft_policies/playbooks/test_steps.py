"""The names of the steps are what the journal stores: they stay, whatever becomes of the classes."""

from typing import get_args

import pytest

from holdfast.ft_policies.playbooks.drill import DrillStep
from holdfast.ft_policies.playbooks.fork import ForkStep
from holdfast.ft_policies.playbooks.prove import ProveStep
from holdfast.ft_policies.playbooks.recover.steps import RecoverStep
from holdfast.ft_policies.playbooks.repair import RepairStep
from holdfast.ft_policies.playbooks.restore import RestoreStep
from holdfast.ft_policies.playbooks.stop import StopStep

STORED = {
    StopStep: "RequestExit AwaitExit",
    ProveStep: "RestoreScratch Recompute RecordProof",
    ForkStep: "CopySnapshot CopyOutput CopyEpochs WriteDeclaration",
    RestoreStep: "FetchSnapshot StopStream BeginHistory MarkSnapshots RollOutput EndRestore StartStream",
    DrillStep: "Decline InjectFault AwaitBack Recover Release Report",
    RepairStep: "EnterEpochs SkipInput EndPrimary SetAsideSnapshots EnterSnapshots MarkSnapshots "
    "SetAsideLeftovers BringBack ShipSnapshot",
    RecoverStep: "Fence Launch AwaitTakeover AwaitCatchUp AwaitPrimaryExit GiveUp EndSecondary "
    "LaunchSecondary TurnSwitch AwaitSecondaryExit GiveUpSecondary AwaitTarget HandOver StopPrimary "
    "FinishMigration RollBack",
}


@pytest.mark.parametrize(("steps", "names"), STORED.items(), ids=lambda value: str(value)[:20])
def test_stored_names_stay(steps: object, names: str) -> None:
    assert [step.name for step in get_args(steps)] == names.split()
