"""`holdfast start`, `stop`, `snapshot` and `recover`: playbooks run by hand."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from holdfast.ft_policies.timings import LEAVE_WITHIN_SECONDS
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.playbook import Build, PlaybookCommand, playbook_command
from holdfast.orchestration.cli.terminal import DONE, DryRunOption, JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.lifecycle import Stop
    from holdfast.resources.project import Project

Streams: TypeAlias = Annotated[list[str], typer.Argument(metavar="STREAM...", help="Stream names.")]
Patience: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="SECONDS", help="Kill a replica that has not stopped after this time."
    ),
]


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Examples:  holdfast start word_count  ·  holdfast start word_count --dry-run"
    )(start)
    app.command(epilog="Example:  holdfast stop word_count --patience 30")(stop)
    app.command(epilog="Example:  holdfast snapshot word_count")(snapshot)
    app.command(epilog="Example:  holdfast recover word_count")(recover)


def start(
    ctx: typer.Context,
    *,
    streams: Streams,
    empty_state: Annotated[
        bool,
        typer.Option(
            "--empty-state",
            help="Continue after the last epoch with empty state if all snapshots are lost and epochs are pruned. "
            "Later output lacks what the state had; the rows are counted as a gap.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start streams and wait until they have caught up with their input.

    A running stream is left alone.
    """
    from holdfast.orchestration.playbooks.lost_state import give_up_state
    from holdfast.orchestration.playbooks.recover import Start

    term = terminal(ctx)
    with term.open_project(current=streams, current_deployment=True) as project:
        for stream in streams if empty_state else ():
            rows = give_up_state(project, stream, dry_run=dry_run)
            term.err.print(f"{stream} continues without the state of {rows:,} rows")
        PlaybookCommand(
            term=term,
            project=project,
            build=Start,
            nothing_to_do="is already running",
            as_json=as_json,
        ).run_all(streams, dry_run=dry_run)


def stop(
    ctx: typer.Context,
    *,
    streams: Streams,
    patience: Patience = LEAVE_WITHIN_SECONDS,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop streams: each finishes its epoch, ships a last snapshot and exits."""
    build = build_stop(patience)
    with playbook_command(ctx, build, nothing_to_do="is not running", as_json=as_json) as command:
        command.run_all(streams, dry_run=dry_run)


def recover(
    ctx: typer.Context,
    *,
    stream: Stream,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recover a stream now, as the sensor would: fence the failed replica, start a new one, catch up."""
    from holdfast.orchestration.playbooks.recover import Recover

    with playbook_command(
        ctx, Recover, nothing_to_do="needs no recovery", as_json=as_json, stream=stream
    ) as command:
        if dry_run:
            command.plan(stream)
        else:
            command.run_all([stream], dry_run=False)


def snapshot(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """Ship a snapshot of a running stream now, and wait until it is stored."""
    from holdfast.orchestration.playbooks.lifecycle import snapshot_now

    term = terminal(ctx)
    with term.open_project() as project:
        with term.spinner(f"shipping a snapshot of {stream}"):
            row = snapshot_now(project, stream)
        if as_json:
            term.json(row)
        elif row is None:
            term.out.print("no snapshot shipped: no epoch is committed yet")
        else:
            term.out.print(
                f"{DONE} {row.id}  epoch {row.epoch}, {fmt.plural(row.files, 'file')}, "
                f"{fmt.size(row.total_bytes)} ({fmt.size(row.new_bytes)} new), "
                f"{fmt.plural(row.requests, 'request')}, {fmt.seconds(row.seconds)}"
            )


def build_stop(patience_seconds: float) -> Build:
    """A factory of stop playbooks with this patience."""

    def build(project: "Project", stream: str, run: str) -> "Stop":
        from holdfast.orchestration.playbooks.lifecycle import Stop

        return Stop(project, stream, run, patience_seconds=patience_seconds)

    return build
