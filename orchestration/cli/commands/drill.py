"""`holdfast drill`: inject a fault and time the recovery."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.drill import CUT_OFF_SECONDS, Fault
from holdfast.orchestration.cli.playbook import (
    Conclusion,
    PlaybookOutcome,
    playbook_command,
)
from holdfast.orchestration.cli.terminal import (
    DONE,
    FAILED,
    DryRunOption,
    JsonOption,
    Stream,
)

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.drill.drill import Drill
    from holdfast.resources.project import Project


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Examples:  holdfast drill word_count --dry-run  ·  holdfast drill word_count --fault pause --yes"
    )(drill)


def drill(
    ctx: typer.Context,
    *,
    stream: Stream,
    fault: Annotated[
        Fault | None,
        typer.Option(
            show_default=Fault.KILL.value,
            help="kill: kill -9 of the driver. pause: SIGSTOP. cut_off: block its object store for a while.",
        ),
    ] = None,
    old_fault: Annotated[
        Fault | None,
        typer.Option("--blow", hidden=True, help="Old name of --fault."),  # house: old word
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="Duration of cut_off.")
    ] = CUT_OFF_SECONDS,
    beyond_budget: Annotated[
        bool,
        typer.Option("--beyond-budget", help="Drill even if the disturbance budget is used up."),
    ] = False,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Drill without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Inject a fault into the primary of a live stream, and time its recovery.

    Only a healthy stream is drilled. The recovery time is compared with the prediction and the
    objective, and the redundancy is restored. Exit code 1 if the objective was missed. The next drill
    finishes an interrupted one.
    """
    if fault is not None and old_fault is not None:
        raise typer.BadParameter("--fault was given twice, once by its old name")
    injected = fault or old_fault or Fault.KILL

    def build(project: "Project", stream: str, run: str) -> "Drill":
        from holdfast.orchestration.playbooks.drill.drill import Drill

        return Drill(
            project,
            stream,
            run,
            fault=injected,
            cut_off_seconds=seconds,
            beyond_budget=beyond_budget,
        )

    with playbook_command(
        ctx, build, nothing_to_do="drill is finished", as_json=as_json, stream=stream
    ) as command:
        if dry_run:
            command.plan(stream, fault=injected)
            return
        if not yes:
            _require_consent(stream, injected)
        command.run(stream, conclude=_conclude)


def _require_consent(stream: str, fault: Fault) -> None:
    if not sys.stdin.isatty():
        raise PermanentError(
            f"a drill injects a fault into the live primary of {stream} and needs consent",
            hint="add --yes, or try --dry-run first",
        )
    typer.confirm(f"Inject {fault} into the primary of {stream} now?", abort=True)


def _conclude(outcome: PlaybookOutcome) -> Conclusion:
    from holdfast.orchestration.playbooks.drill.outcome import DrillOutcome

    result = outcome.last(DrillOutcome) if outcome.error is None else None
    if result is None:
        return Conclusion(facts={"outcome": None}, code=1)
    mark = DONE if result.held else FAILED
    return Conclusion(
        facts={"outcome": result.as_dict()},
        message=f"{mark} {escape(outcome.stream)}  {escape(result.sentence)}",
        code=0 if result.held else 1,
    )
