"""The steps of a plan in words: what each of them does, before it is done."""

from dataclasses import asdict
from typing import Any, TypeAlias

from ft_policies import drill, restore_drill, stop
from ft_policies.migration import AwaitTarget, FinishMigration, HandOver, RollBack, StopPrimary
from ft_policies.recovery import (
    AwaitEnd,
    AwaitLevel,
    AwaitSecondaryEnd,
    AwaitTakeover,
    EndSecondary,
    Fence,
    GiveUp,
    GiveUpSecondary,
    Launch,
    LaunchSecondary,
    Step,
    TurnSwitch,
    turn_told,
)
from ft_policies.tiers import Switch

AnyStep: TypeAlias = Step | drill.Step | restore_drill.Step | stop.Step
BLOWS = {
    drill.Blow.KILL: "kills the driver of {}, with its JVM",
    drill.Blow.PAUSE: "stops the processes of {} where they are (SIGSTOP)",
    drill.Blow.CUT_OFF: "lets the object store not answer {} for a while",
}
TURNS = {
    (Switch.DEPLOY, True): "waits until the secondary's Spark is up and has rehearsed the plan",
    (Switch.DEPLOY, False): "asks the secondary to leave",
    (Switch.SYNC, True): "the secondary follows the primary's snapshots on its own disk",
    (Switch.SYNC, False): "it no longer follows the primary's snapshots",
    (Switch.RECEIVE, True): "it fetches the input of each new epoch to its own disk",
    (Switch.RECEIVE, False): "it no longer fetches input ahead",
    (Switch.PROCESS, True): "it restores the state and processes the same epochs as the primary",
    (Switch.PROCESS, False): "its query ends; the process stays up",
    (Switch.SEND, True): "it commits its output too; of each epoch one copy counts",
    (Switch.SEND, False): "it keeps its output back, ready to be committed",
}


def facts(step: AnyStep) -> dict[str, Any]:
    """A step of a plan for a program."""
    turn = str(turn_told(asdict(step)) or "")
    return {"step": type(step).__name__, "turn": turn, "does": does(step)}


def does(step: AnyStep) -> str:
    """What a step will do, in a sentence."""
    if isinstance(step, drill.Step):
        return _does_in_drill(step)
    if isinstance(step, restore_drill.Step):
        return _does_to_prove(step)
    if isinstance(step, stop.Step):
        return _does_to_stop(step)
    return _does_to_recover(step)


def _does_to_recover(step: Step) -> str:
    match step:
        case TurnSwitch():
            return TURNS[step.switch, step.on]
        case LaunchSecondary():
            return "starts a second driver, with nothing on but `deploy`"
        case AwaitSecondaryEnd():
            return f"asks {step.secondary} to leave, and waits until it has"
        case EndSecondary():
            return f"takes the slot from {step.secondary}: {step.reason}"
        case GiveUpSecondary() | GiveUp():
            return f"gives up: {step.reason}"
        case AwaitTarget() | HandOver() | StopPrimary() | FinishMigration() | RollBack():
            return _does_to_migrate(step)
        case _:
            return _does_to_primary(step)


def _does_to_migrate(
    step: AwaitTarget | HandOver | StopPrimary | FinishMigration | RollBack,
) -> str:
    match step:
        case AwaitTarget():
            return "waits until the target has computed as much of what was committed as the protocol asks"
        case HandOver():
            return f"takes the lease from {step.primary} at the end of an epoch, for the target"
        case StopPrimary():
            return f"lets {step.primary} finish its epoch, ship a last snapshot and leave"
        case FinishMigration():
            return "makes the target's declaration the stream's"
        case RollBack():
            return f"gives the migration up: {step.reason}"


def _does_to_primary(step: Fence | Launch | AwaitTakeover | AwaitLevel | AwaitEnd) -> str:
    match step:
        case Fence():
            return f"takes lease and slot from {step.primary}: {step.reason}"
        case Launch():
            return "starts a new primary from the newest snapshot"
        case AwaitTakeover():
            return f"waits until {step.secondary} has taken over"
        case AwaitLevel():
            return "waits until the primary has worked off what was missed"
        case AwaitEnd():
            return f"waits until {step.primary} has left"


def _does_in_drill(step: drill.Step) -> str:
    match step:
        case drill.Decline():
            return f"leaves the stream alone: {step.reason}"
        case drill.Strike():
            seconds = step.predicted_seconds
            said = "nothing is predicted yet" if seconds is None else f"predicted: {seconds:.1f} s"
            return f"{BLOWS[step.blow].format(step.primary)}; in {step.tier}, {said}"
        case drill.AwaitBack():
            return "watches the stream come back by itself, and times it"
        case drill.Recover():
            return "brings back what is still missing, the secondary at least"
        case drill.Release():
            return f"lets {step.primary} go on: it finds that it has lost, and leaves"
        case drill.Report():
            return "tells what it took, beside the prediction and the objective"


def _does_to_prove(step: restore_drill.Step) -> str:
    match step:
        case restore_drill.RestoreScratch():
            return f"restores {step.snapshot} into a scratch folder, every digest verified"
        case restore_drill.Recompute():
            return (
                f"starts Spark, computes epoch {step.epoch} from there without sending, and compares "
                "it with what was committed"
            )
        case restore_drill.NoteProof():
            return f"notes when {step.snapshot} was proven, and in how many seconds"


def _does_to_stop(step: stop.Step) -> str:
    match step:
        case stop.Ask():
            return f"asks {step.replica} to finish its epoch, ship if it is the primary, and leave"
        case stop.AwaitLeave():
            return f"waits until {step.replica} has left, and ends it by force if it does not"
