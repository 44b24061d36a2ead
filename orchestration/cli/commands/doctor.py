"""`holdfast doctor`: examine a stream's snapshots, records, source and checkpoint, and repair them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from holdfast.ft_policies.doctor.findings import RepairKind, Severity, worst_severity
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.playbook import Conclusion, PlaybookCommand, PlaybookOutcome
from holdfast.orchestration.cli.terminal import DONE, NOTE, JsonOption, Stream, Terminal, terminal
from holdfast.orchestration.cli.views.findings import findings_table
from holdfast.orchestration.parsing import ALL, parse_repair

if TYPE_CHECKING:
    from holdfast.observation.doctor.examine import Diagnosis
    from holdfast.resources.project import Project

EXIT_CODES = {None: 0, Severity.NOTE: 0, Severity.WARNING: 3, Severity.CRITICAL: 4}


def register(app: typer.Typer) -> None:
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
        bool, typer.Option("--deep", help="Also read all bytes of all snapshots.")
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
        bool, typer.Option("--dry-run", help="Only print what --repair would do.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Repair without asking.")] = False,
    confirm: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", show_default=False, help="Delete what this repair has set aside."
        ),
    ] = None,
    undo: Annotated[
        str | None,
        typer.Option(metavar="RUN", show_default=False, help="Undo this repair."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Examine a stream, running or not: what is damaged, the evidence, and the repairs.

    The doctor reads checkpoint, snapshots, epoch log, ledger, output table and source. Exit code 0
    without a finding or with notes only, 3 with warnings, 4 with a critical finding, 1 if the command
    failed. What a repair removes is kept until --confirm.
    """
    if sum(option is not None for option in (repair, confirm, undo)) > 1:
        raise typer.BadParameter("give only one of --repair, --confirm and --undo")
    if repair is None and (dry_run or yes):
        raise typer.BadParameter("--dry-run and --yes need --repair")
    if repair is not None and as_json and not (dry_run or yes):
        raise typer.BadParameter("--json cannot ask: add --yes or --dry-run")
    term = terminal(ctx)
    with term.open_storage(stream) as project:
        if confirm is not None or undo is not None:
            _settle(term, project, stream, confirm, undo, as_json=as_json)
        elif repair is None:
            _examine(term, project, stream, deep=deep, as_json=as_json)
        else:
            _repair(
                term,
                project,
                stream,
                parse_repair(repair),
                deep=deep,
                dry_run=dry_run,
                yes=yes,
                as_json=as_json,
            )


def _examine(term: Terminal, project: "Project", stream: str, *, deep: bool, as_json: bool) -> None:
    diagnosis = _diagnose(term, project, stream, deep=deep)
    if as_json:
        term.json(_facts(project, diagnosis))
    else:
        _show(term, project, diagnosis)
    raise typer.Exit(EXIT_CODES[worst_severity(diagnosis.findings)])


def _diagnose(term: Terminal, project: "Project", stream: str, *, deep: bool) -> "Diagnosis":
    from holdfast.observation.doctor.examine import diagnose_stream

    with term.spinner(f"examining {stream}"):
        return diagnose_stream(project, stream, deep=deep)


def _facts(project: "Project", diagnosis: "Diagnosis") -> dict[str, Any]:
    from holdfast.orchestration.playbooks.repair.quarantine import list_quarantined_runs

    stream, severity = diagnosis.examined.stream, worst_severity(diagnosis.findings)
    return {
        "stream": stream,
        "severity": severity,
        "findings": [
            {**asdict(finding), "sentence": finding.kind.sentence} for finding in diagnosis.findings
        ],
        "aside": list_quarantined_runs(project, stream),
    }


def _show(term: Terminal, project: "Project", diagnosis: "Diagnosis") -> None:
    from holdfast.orchestration.playbooks.repair.quarantine import list_quarantined_runs

    stream = diagnosis.examined.stream
    if diagnosis.findings:
        term.out.print(findings_table(diagnosis.findings))
        term.out.print(f"{NOTE} {fmt.plural(len(diagnosis.findings), 'finding')}")
    else:
        term.out.print(f"{DONE} {escape(stream)}: no finding")
    for run in list_quarantined_runs(project, stream):
        term.out.print(
            f"{NOTE} repair {run} keeps objects aside: --confirm {run} deletes them, "
            f"--undo {run} puts them back"
        )


def _repair(
    term: Terminal,
    project: "Project",
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

    def build(project: "Project", stream: str, run: str) -> Repair:
        return Repair(project, stream, run, chosen=kind, deep=deep)

    command = PlaybookCommand(
        term=term, project=project, build=build, nothing_to_do="needs no repair", as_json=as_json
    )
    diagnosis = _diagnose(term, project, stream, deep=deep)
    steps = plan_steps(build(project, stream, "").preview_of(diagnosis), next_step)
    if dry_run or (steps and not yes):
        command.show(steps, stream=stream, otherwise=f"{DONE} nothing to do")
    if dry_run:
        return
    if steps and not yes:
        typer.confirm("Apply this repair?", abort=True)

    def conclude(outcome: PlaybookOutcome) -> Conclusion:
        left = _diagnose(term, project, stream, deep=deep)
        if not as_json:
            _show(term, project, left)
        code = 1 if outcome.error is not None else EXIT_CODES[worst_severity(left.findings)]
        return Conclusion(facts={"left": _facts(project, left)}, code=code)

    command.run(stream, conclude=conclude)


def _settle(
    term: Terminal,
    project: "Project",
    stream: str,
    confirm: str | None,
    undo: str | None,
    *,
    as_json: bool,
) -> None:
    from holdfast.orchestration.playbooks.repair.quarantine import Quarantine, summary

    run = confirm or undo or ""
    quarantine = Quarantine(project, stream, run)
    counts = summary(quarantine.confirm() if undo is None else quarantine.undo())
    if as_json:
        term.json({"stream": stream, "run": run, "undone": undo is not None, **counts})
        return
    parts = [f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number]
    action = "undone" if undo is not None else "confirmed, and what it had set aside is deleted"
    term.out.print(f"{DONE} repair {run} is {action}: {', '.join(parts) or 'nothing'}")
