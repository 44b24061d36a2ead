"""`holdfast start`, `stop`, `snapshot` and `recover`: the playbooks, by hand."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.playbook import Build, PlaybookCommand
from holdfast.orchestration.cli.terminal import DONE, DryRunOption, JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.lifecycle import Stop
    from holdfast.resources.project import Project

Streams: TypeAlias = Annotated[list[str], typer.Argument(metavar="STREAM...", help="Stream names.")]
Patience: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="SECONDS", help="End a replica by force if it has not left by then."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Give the command line these commands."""
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
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start streams and wait until they have caught up with their input.

    A stream that runs is left alone.
    """
    from holdfast.orchestration.playbooks.recover import Start

    tell = terminal(ctx)
    with tell.world() as world:
        PlaybookCommand(
            tell=tell, world=world, build=Start, nothing_to_do="runs already", as_json=as_json
        ).run_all(streams, dry_run=dry_run)


def stop(
    ctx: typer.Context,
    *,
    streams: Streams,
    patience: Patience = 90.0,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop streams: each finishes its epoch, ships a last snapshot, and leaves."""
    tell, build = terminal(ctx), stopping(patience)
    with tell.world() as world:
        PlaybookCommand(
            tell=tell, world=world, build=build, nothing_to_do="does not run", as_json=as_json
        ).run_all(streams, dry_run=dry_run)


def recover(
    ctx: typer.Context,
    *,
    stream: Stream,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recover a stream now, as the sensor would: fence what failed, start anew, catch up."""
    from holdfast.orchestration.playbooks.recover import Recover

    tell = terminal(ctx)
    with tell.world() as world:
        world.config.stream(stream)
        command = PlaybookCommand(
            tell=tell,
            world=world,
            build=Recover,
            nothing_to_do="needs no recovery",
            as_json=as_json,
        )
        if dry_run:
            command.plan(stream)
        else:
            command.run_all([stream], dry_run=False)


def snapshot(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """Ship a snapshot of a running stream now, and wait until it is stored."""
    from holdfast.orchestration.playbooks.lifecycle import snapshot_now

    tell = terminal(ctx)
    with tell.world() as world:
        with tell.working(f"shipping a snapshot of {stream}"):
            row = snapshot_now(world, stream)
        if as_json:
            tell.json(row)
        elif row is None:
            tell.out.print("there is no snapshot: no epoch was committed yet")
        else:
            tell.out.print(
                f"{DONE} {row.id}  epoch {row.epoch}, {words.plural(row.files, 'file')}, "
                f"{words.size(row.total_bytes)} ({words.size(row.new_bytes)} new), "
                f"{words.plural(row.requests, 'request')}, {words.seconds(row.seconds)}"
            )


def stopping(patience_seconds: float) -> Build:
    """The stop playbook with this much patience."""

    def build(world: "Project", stream: str, run: str) -> "Stop":
        from holdfast.orchestration.playbooks.lifecycle import Stop

        return Stop(world, stream, run, patience_seconds=patience_seconds)

    return build
