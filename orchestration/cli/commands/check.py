"""`holdfast check`: all mistakes in the declarations."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.tiers import Mode
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.terminal import DONE, NOTE, JsonOption, Terminal, terminal

if TYPE_CHECKING:
    from holdfast.configs.declarations.stream import StreamDeclaration
    from holdfast.configs.loading import Problem


def register(app: typer.Typer) -> None:
    app.command(epilog="Example:  holdfast check --json")(check)


def check(ctx: typer.Context, *, as_json: JsonOption = False) -> None:
    """Check all declarations: every mistake with file, line, field, value and the allowed values.

    A stream that should run and has no file is a mistake, too, where there is a control store.
    Exit code 1 if there is a mistake; a warning is shown and changes nothing.
    """
    from holdfast.configs.project import ProjectConfig, check as problems_of, list_warnings
    from holdfast.resources.clock import SYSTEM_CLOCK
    from holdfast.resources.project import list_missing_files

    term = terminal(ctx)
    root = term.root()
    problems, warnings = problems_of(root, SYSTEM_CLOCK.monotonic), list_warnings(root)
    try:
        problems += list_missing_files(root)
    except HoldfastError as error:  # CI may not reach it
        term.err.print(f"{NOTE} the streams that should run were not checked: {escape(str(error))}")
    streams = {} if problems else dict(ProjectConfig.load(root).streams)
    if as_json:
        shown = {"problems": problems, "warnings": warnings}
        facts = {kind: [asdict(problem) for problem in of_kind] for kind, of_kind in shown.items()}
        term.json({**facts, "streams": _facts(streams)})
    elif problems:
        _show_problems(term, warnings, colour="yellow")
        _show_problems(term, problems, colour="red")
        term.out.print(f"\n{fmt.plural(len(problems), 'mistake')}")
    else:
        _show_problems(term, warnings, colour="yellow")
        term.out.print(_table(streams))
        term.out.print(f"{DONE} {fmt.plural(len(streams), 'stream')} declared, no mistake")
    raise typer.Exit(1 if problems else 0)


def _show_problems(term: Terminal, problems: "list[Problem]", *, colour: str) -> None:
    for problem in problems:
        place = f"{problem.file}:{problem.line}:{problem.column}"
        term.out.print(f"[bold]{escape(place)}[/bold]", soft_wrap=True)
        value = "" if problem.value is None else f" = {problem.value}"
        term.out.print(f"  {escape(problem.field or '(the file)')}{escape(value)}", soft_wrap=True)
        kind = "warning: " if colour == "yellow" else ""
        term.out.print(f"  [{colour}]{kind}{escape(problem.message)}[/{colour}]", soft_wrap=True)


def _facts(streams: "dict[str, StreamDeclaration]") -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "app": declared.app,
            "source": declared.source.kind,
            "sink": declared.sink.kind,
            "tier": "automatic" if declared.controller.mode is Mode.AUTO else declared.tier.value,
            "recovery_time_seconds": declared.objective.recovery_time,
            "guarantee": declared.objective.guarantee.value,
        }
        for name, declared in sorted(streams.items())
    ]


def _table(streams: "dict[str, StreamDeclaration]") -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("stream", "app", "source", "sink", "tier", "objective"):
        table.add_column(column, overflow="fold")
    for row in _facts(streams):
        objective = f"recovery in {row['recovery_time_seconds']:g} s, {row['guarantee']}"
        table.add_row(row["name"], row["app"], row["source"], row["sink"], row["tier"], objective)
    return table
