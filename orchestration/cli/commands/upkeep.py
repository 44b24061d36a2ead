"""`holdfast inputs` and `holdfast compact`: what a stream leaves behind, at its source and in its tables."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.playbook import playbook_command
from holdfast.orchestration.cli.terminal import (
    DONE,
    FAILED,
    DryRunOption,
    JsonOption,
    Stream,
    Terminal,
    terminal,
)

if TYPE_CHECKING:
    from holdfast.orchestration.inputs import InputFiles
    from holdfast.streaming.sources.folder import ListedFile


def register(app: typer.Typer) -> None:
    app.command(epilog="Examples:  holdfast inputs clicks  ·  holdfast inputs clicks --prune")(
        inputs
    )
    app.command(epilog="Example:  holdfast compact clicks --dry-run")(compact)


def inputs(
    ctx: typer.Context,
    *,
    stream: Stream,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete the files that are not needed any more.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Count the input files that a recovery or a restore can still need, and name the others."""
    from holdfast.orchestration.inputs import delete_unneeded, read_inputs

    term = terminal(ctx)
    with term.open_storage(stream) as project:
        stream_inputs = read_inputs(project, stream)
        _show(term, stream_inputs, as_json=as_json)
        if not prune or not stream_inputs.unneeded:
            return
        if not yes:
            count = fmt.plural(len(stream_inputs.unneeded), "input file")
            typer.confirm(f"Delete {count} for good?", abort=True, err=True)
        delete_unneeded(project, stream_inputs)
    if not as_json:
        term.out.print(f"{DONE} {fmt.plural(len(stream_inputs.unneeded), 'input file')} deleted")


def _show(term: Terminal, inputs: "InputFiles", *, as_json: bool) -> None:
    if as_json:
        term.json(
            {
                "stream": inputs.stream,
                "first_epoch": inputs.first_epoch,
                "margin_seconds": inputs.margin.margin_seconds,
                "lasting": inputs.margin.recoverable and inputs.margin.lasting,
                "needed": [file.name for file in inputs.needed],
                "unneeded": [file.name for file in inputs.unneeded],
            }
        )
        return
    for file in inputs.unneeded:
        term.out.print(file.name, markup=False, highlight=False)
    needed, unneeded = (_sum(files) for files in (inputs.needed, inputs.unneeded))
    term.out.print(
        f"{inputs.stream}: {unneeded} not needed by any recovery or restore, {needed} needed "
        f"(new, or of epoch {inputs.first_epoch} or later)"
    )
    lasting = inputs.margin.recoverable and inputs.margin.lasting
    term.out.print(f"{DONE if lasting else FAILED} {escape(inputs.margin.reason)}", soft_wrap=True)


def _sum(files: "tuple[ListedFile, ...]") -> str:
    size = sum(file.size_bytes for file in files)
    return f"{fmt.plural(len(files), 'input file')} ({fmt.size(size)})"


def compact(
    ctx: typer.Context,
    *,
    stream: Stream,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Merge the old files in the tables of a stream; it may run meanwhile.

    The schedule `compaction` does the same every 20 minutes. Rows and epochs stay as they are.
    """
    from holdfast.orchestration.playbooks.compact import Compact

    with playbook_command(
        ctx, Compact, nothing_to_do="is compact", as_json=as_json, stream=stream
    ) as command:
        if dry_run:
            command.plan(stream)
        else:
            command.run(stream)
