"""`holdfast start`, `stop`, `snapshot` and `recover`: the playbooks, by hand."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.markup import escape

from orchestration.cli import words
from orchestration.cli.stepping import Playbook, carry_out, plan_facts, plan_shown
from orchestration.cli.terminal import (
    DONE,
    DryRunOption,
    JsonOption,
    Stream,
    Terminal,
    chosen,
    terminal,
)

if TYPE_CHECKING:
    from orchestration.plans import AnyStep
    from orchestration.playbooks.performing import Performed
    from resources.project import Project

Streams: TypeAlias = Annotated[list[str], typer.Argument(metavar="STREAM...", help="Stream names.")]
Patience: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="SECONDS", help="End a replica by force if it has not left by then."
    ),
]

Plan: TypeAlias = "Callable[[Project, str], Sequence[AnyStep]]"


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
    """Start streams and wait until they are level with their input.

    A stream that runs is left alone.
    """
    from orchestration.playbooks.recover import start as playbook, start_plan

    if dry_run:
        _show_plans(
            terminal(ctx), streams, start_plan, as_json=as_json, nothing_to_do="runs already"
        )
        return
    _run(terminal(ctx), streams, playbook, as_json=as_json, nothing_to_do="runs already")


def stop(
    ctx: typer.Context,
    *,
    streams: Streams,
    patience: Patience = 90.0,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop streams: each finishes its epoch, ships a last snapshot, and leaves."""
    from orchestration.playbooks.stop import stop_plan

    if dry_run:
        _show_plans(
            terminal(ctx), streams, stop_plan, as_json=as_json, nothing_to_do="does not run"
        )
        return
    _run(terminal(ctx), streams, stopping(patience), as_json=as_json, nothing_to_do="does not run")


def recover(
    ctx: typer.Context,
    *,
    stream: Stream,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recover a stream now, as the sensor would: fence what failed, start anew, catch up."""
    from orchestration.playbooks.recover import Recovery

    if dry_run:
        _show_recovery(terminal(ctx), stream, as_json=as_json)
        return

    def playbook(world: "Project", name: str, run: str) -> "Iterator[Performed[Any]]":
        return Recovery(world=world, stream=name, run=run).steps()

    _run(terminal(ctx), [stream], playbook, as_json=as_json, nothing_to_do="needs no recovery")


def _show_recovery(tell: Terminal, stream: str, *, as_json: bool) -> None:
    from orchestration.playbooks.recover import recover_plan

    with tell.world() as world:
        world.config.stream(stream)
        told = plan_facts(stream, recover_plan(world, stream))
    if as_json:
        tell.json(told)
    else:
        tell.out.print(plan_shown(told, nothing_to_do="needs no recovery"))


def snapshot(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """Ship a snapshot of a running stream now, and wait until it is stored."""
    from orchestration.playbooks.snapshot import snapshot_now

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


def stopping(patience_seconds: float) -> Playbook:
    """The stop playbook with this much patience."""
    from orchestration.playbooks.stop import stop as playbook

    return lambda world, name, run: playbook(world, name, run, patience_seconds=patience_seconds)


def _show_plans(
    tell: Terminal, streams: list[str], plan: Plan, *, as_json: bool, nothing_to_do: str
) -> None:
    with tell.world() as world:
        told = [plan_facts(name, plan(world, name)) for name in chosen(world.config, streams)]
    if as_json:
        tell.json({"streams": told})
        return
    for one in told:
        if len(told) > 1 and one["steps"]:
            tell.out.print(f"[bold]{escape(one['stream'])}[/bold]")
        tell.out.print(plan_shown(one, nothing_to_do=nothing_to_do))


def _run(
    tell: Terminal, streams: list[str], playbook: Playbook, *, as_json: bool, nothing_to_do: str
) -> None:
    with tell.world() as world:
        names = chosen(world.config, streams)
        console = None if as_json else tell.out
        told = carry_out(world, names, playbook, console, nothing_to_do=nothing_to_do)
    if as_json:
        tell.json({"streams": [one.facts() for one in told]})
    raise typer.Exit(1 if any(one.error for one in told) else 0)
