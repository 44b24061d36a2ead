"""The steps of a restore or a fork in words: what each of them does, before it is done."""

from typing import Any

from ft_policies import fork, restore
from orchestration.playbooks.restore_point import Point


def facts(step: restore.Step | fork.Step) -> dict[str, str]:
    """A step of a plan for a program."""
    return {"step": type(step).__name__, "does": does(step)}


def fork_facts(point: Point) -> dict[str, Any]:
    """Where a fork begins."""
    return {"epoch": point.epoch, "snapshot": point.snapshot_id}


def point_facts(point: Point) -> dict[str, Any]:
    """What going back to a point means, in numbers."""
    return {
        "epoch": point.epoch,
        "snapshot": point.snapshot_id,
        "last_epoch": point.last_epoch,
        "undone_epochs": point.undone_epochs,
        "undone_rows": point.undone_rows,
        "computed_epochs": point.last_decided - point.first_computed + 1,
        "computed_rows": point.computed_rows,
    }


def does(step: restore.Step | fork.Step) -> str:
    """What a step will do, in a sentence."""
    match step:
        case fork.CopySnapshot():
            return f"copies {step.snapshot}, and verifies every byte of the copy"
        case fork.CopyOutput():
            return f"copies the output as it was after epoch {step.epoch}, in one commit"
        case fork.CopyEpochs():
            return f"copies the epochs up to {step.epoch} and their entries in the ledger"
        case fork.WriteDeclaration():
            return f"writes {step.file}: from then on the fork can be started"
        case _:
            return _does_in_place(step)


def _does_in_place(step: restore.Step) -> str:
    match step:
        case restore.FetchSnapshot():
            return f"copies {step.snapshot} to the stream's own snapshots, every byte verified"
        case restore.StopStream():
            return "sees the replicas off; one that does not leave in time is ended"
        case restore.BeginHistory():
            return (
                f"begins history {step.history}: the ledger's entries after epoch {step.epoch} are set "
                "aside, and nothing that an older replica still does counts"
            )
        case restore.MarkSnapshots():
            return f"marks snapshots after epoch {step.epoch} as superseded"
        case restore.RollOutput():
            return f"takes the output back to epoch {step.epoch}, and shuts it for older replicas"
        case restore.EndRestore():
            return (
                "notes that state and output are back; the stream goes by what is declared now, and "
                "is wanted again if it ran"
            )
        case restore.StartStream():
            return "starts the stream, and waits until it has computed again what was undone"
