"""`holdfast doctor`: what is wrong with a stream's snapshots, records, source and checkpoint, and its repair."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from holdfast.ft_policies.doctor.findings import RepairKind, Severity, worst
from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.findings import findings_table
from holdfast.orchestration.cli.playbook import Conclusion, PlaybookCommand, PlaybookOutcome
from holdfast.orchestration.cli.storage import storage
from holdfast.orchestration.cli.terminal import DONE, NOTE, JsonOption, Stream, Terminal, terminal
from holdfast.orchestration.parsing import ALL, parse_repair

if TYPE_CHECKING:
    from holdfast.observation.doctor.examine import Diagnosis
    from holdfast.resources.project import Project

EXIT_CODES = {None: 0, Severity.NOTE: 0, Severity.WARNING: 3, Severity.CRITICAL: 4}


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(
        epilog="Examples:  holdfast doctor word_count --deep  ·  "
        "holdfast doctor word_count --repair all --dry-run  ·  "
        "holdfast doctor word_count --undo cli-1f0c9a2e"
    )(doctor)


def doctor(
    ctx: typer.Context,
    *,
    stream: Stream,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read all bytes of all snapshots, too.")
    ] = False,
    repair: Annotated[
        str | None,
        typer.Option(
            "--repair",
            metavar="KIND",
            show_default=False,
            help=f"Apply a repair: {ALL} (the best of each finding), {', '.join(RepairKind)}.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what --repair would do.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a repair.")] = False,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="RUN", show_default=False, help="Delete what a repair has set aside."),
    ] = None,
    undo: Annotated[
        str | None,
        typer.Option(metavar="RUN", show_default=False, help="Take a repair back."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look for what is wrong with a stream, with evidence, and mend it without deleting anything by hand.

    It reads checkpoint, snapshots, epoch log, ledger, output table and source, also while the stream
    runs. Leaves with 0 if all is well or only worth a note, with 3 if there are warnings and with 4 if
    something is critical; with 1 if it failed. What a repair removes is kept until --confirm.
    """
    if sum(one is not None for one in (repair, confirm, undo)) > 1:
        raise typer.BadParameter("give one of --repair, --confirm and --undo")
    if repair is None and (dry_run or yes):
        raise typer.BadParameter("--dry-run and --yes go with --repair")
    if repair is not None and as_json and not (dry_run or yes):
        raise typer.BadParameter("--json cannot ask: give --yes or --dry-run")
    tell = terminal(ctx)
    with storage(tell, stream) as world:
        if confirm is not None or undo is not None:
            _settle(tell, world, stream, confirm, undo, as_json=as_json)
        elif repair is None:
            _examine(tell, world, stream, deep=deep, as_json=as_json)
        else:
            _repair(
                tell,
                world,
                stream,
                parse_repair(repair),
                deep=deep,
                dry_run=dry_run,
                yes=yes,
                as_json=as_json,
            )


def _examine(tell: Terminal, world: "Project", stream: str, *, deep: bool, as_json: bool) -> None:
    found = _diagnosed(tell, world, stream, deep=deep)
    if as_json:
        tell.json(_facts(world, found))
    else:
        _show(tell, world, found)
    raise typer.Exit(EXIT_CODES[worst(found.findings)])


def _diagnosed(tell: Terminal, world: "Project", stream: str, *, deep: bool) -> "Diagnosis":
    from holdfast.observation.doctor.examine import diagnosed

    with tell.working(f"examining {stream}"):
        return diagnosed(world, stream, deep=deep)


def _facts(world: "Project", found: "Diagnosis") -> dict[str, Any]:
    from holdfast.orchestration.playbooks.repair.quarantine import quarantined_runs

    stream, severity = found.examined.stream, worst(found.findings)
    return {
        "stream": stream,
        "severity": severity,
        "findings": [{**asdict(one), "told": one.kind.told} for one in found.findings],
        "aside": quarantined_runs(world, stream),
    }


def _show(tell: Terminal, world: "Project", found: "Diagnosis") -> None:
    from holdfast.orchestration.playbooks.repair.quarantine import quarantined_runs

    stream = found.examined.stream
    if found.findings:
        tell.out.print(findings_table(found.findings))
        tell.out.print(f"{NOTE} {words.plural(len(found.findings), 'finding')}")
    else:
        tell.out.print(f"{DONE} {escape(stream)}: all well")
    for run in quarantined_runs(world, stream):
        tell.out.print(
            f"{NOTE} {run} has set something aside: --confirm {run} deletes it, --undo {run} puts it back"
        )


def _repair(
    tell: Terminal,
    world: "Project",
    stream: str,
    kind: RepairKind | None,
    *,
    deep: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    from holdfast.ft_policies.playbooks.base import plan_steps
    from holdfast.ft_policies.playbooks.repair import next_step
    from holdfast.orchestration.playbooks.repair.repair import Repair

    def build(world: "Project", stream: str, run: str) -> Repair:
        return Repair(world, stream, run, chosen=kind, deep=deep)

    command = PlaybookCommand(
        tell=tell, world=world, build=build, nothing_to_do="needs no repair", as_json=as_json
    )
    diagnosis = _diagnosed(tell, world, stream, deep=deep)
    steps = plan_steps(build(world, stream, "").preview_of(diagnosis), next_step)
    if dry_run or (steps and not yes):
        command.show(steps, stream=stream, otherwise=f"{DONE} nothing to do")
    if dry_run:
        return
    if steps and not yes:
        typer.confirm("Do that?", abort=True)

    def conclude(outcome: PlaybookOutcome) -> Conclusion:
        left = _diagnosed(tell, world, stream, deep=deep)
        if not as_json:
            _show(tell, world, left)
        code = 1 if outcome.error is not None else EXIT_CODES[worst(left.findings)]
        return Conclusion(facts={"left": _facts(world, left)}, code=code)

    command.run(stream, conclude=conclude)


def _settle(
    tell: Terminal,
    world: "Project",
    stream: str,
    confirm: str | None,
    undo: str | None,
    *,
    as_json: bool,
) -> None:
    from holdfast.orchestration.playbooks.repair.quarantine import Quarantine, summary

    run = confirm or undo or ""
    quarantine = Quarantine(world, stream, run)
    counts = summary(quarantine.confirm() if undo is None else quarantine.undo())
    if as_json:
        tell.json({"stream": stream, "run": run, "undone": undo is not None, **counts})
        return
    parts = [f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number]
    what = "is as it was" if undo is not None else "is gone for good"
    tell.out.print(f"{DONE} what {run} has done {what}: {', '.join(parts) or 'nothing'}")
