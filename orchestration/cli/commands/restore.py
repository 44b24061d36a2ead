"""`holdfast restore`: a stream back at a past epoch, in place or as a fork."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ft_policies.errors import PermanentError
from orchestration.cli import words
from orchestration.cli.stepping import Playbook, Told, carry_out, plan_table
from orchestration.cli.storage import storage
from orchestration.cli.terminal import (
    DONE,
    INTERRUPTED,
    NOTE,
    DryRunOption,
    JsonOption,
    Stream,
    Terminal,
    terminal,
)

if TYPE_CHECKING:
    from orchestration.playbooks.performing import Performed
    from orchestration.playbooks.restore_point import Asked, Point
    from resources.project import Project

ASKED = "asked on the command line"


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(
        epilog="Examples:  holdfast restore word_count --epoch 120 --dry-run  ·  "
        "holdfast restore word_count --at 2026-11-17T02:30:00 --as word_count_trial"
    )(restore)


def restore(
    ctx: typer.Context,
    *,
    stream: Stream,
    epoch: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Back to what it was after this epoch.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The last epoch by then; ISO 8601, UTC without a zone."),
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="ID", help="The epoch of this snapshot.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="A fork of this name; the original is only read."
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where the fork's output goes.")
    ] = None,
    place: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="Take the snapshot from s3://bucket/prefix."),
    ] = None,
    keep_output: Annotated[
        bool,
        typer.Option("--keep-output", help="For a sink of your own: it is not taken back."),
    ] = False,
    patience: Annotated[
        float,
        typer.Option(min=0.0, metavar="SECONDS", help="End a replica that has not left by then."),
    ] = 90.0,
    why: Annotated[str, typer.Option(metavar="TEXT", help="For the stream's history.")] = ASKED,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take state and output of a stream back to a past epoch; from there it goes on by itself.

    The input stays as it was divided: the epochs after the point are computed again. Without a point, a
    restore that was cut short is finished.
    """
    if output is not None and name is None:
        raise typer.BadParameter("only a fork (--as) has an output of its own")
    if as_json and not (yes or dry_run or name):
        raise typer.BadParameter("--json cannot ask: add --yes")
    tell = terminal(ctx)
    asked = _asked(epoch, at, snapshot, place)
    with storage(tell, stream) as world:
        if name is not None:
            _fork(tell, world, stream, asked, name, output, dry_run=dry_run, as_json=as_json)
            return
        plan = _Planned(tell, world, stream, asked, keep_output=keep_output, as_json=as_json)
        plan.show(dry_run=dry_run)
        if not dry_run:
            plan.confirm(yes=yes)
            plan.carry_out(why=why, patience_seconds=patience)


def _asked(epoch: int | None, at: str | None, snapshot: str | None, place: str | None) -> "Asked":
    from orchestration.playbooks.restore_point import Asked, moment

    try:
        seconds = None if at is None else moment(at)
        return Asked(epoch=epoch, at=seconds, snapshot=snapshot, place=place)
    except PermanentError as error:
        raise typer.BadParameter(f"{error}: {error.hint}") from error


class _Planned:
    """A restore in place that nothing stands in the way of."""

    def __init__(
        self,
        tell: Terminal,
        world: "Project",
        stream: str,
        asked: "Asked",
        *,
        keep_output: bool,
        as_json: bool,
    ) -> None:
        from orchestration.playbooks.restore import restore_plan

        self._tell, self._world, self._stream, self._asked = tell, world, stream, asked
        self._keep_output, self._as_json = keep_output, as_json
        self._plan = restore_plan(world, stream, asked, keep_output=keep_output)

    def show(self, *, dry_run: bool) -> None:
        """Say what will be undone; a dry run also tells the steps."""
        from orchestration.restore_plans import point_facts

        tell, point = self._tell, self._plan.point
        if self._as_json:
            if dry_run:
                numbers = {} if point is None else point_facts(point)
                _print_json(tell, self._plan.steps, stream=self._stream, **numbers)
            return
        goal = f"{escape(self._stream)} → epoch {self._plan.epoch}"
        price = "" if point is None else f"  [dim]({_price(point)})[/dim]"
        tell.out.print(goal + price, soft_wrap=True)
        if dry_run:
            _print_steps(tell, self._plan.steps)

    def confirm(self, *, yes: bool) -> None:
        """Ask, unless there is nothing left to be undone."""
        point = self._plan.point
        if not yes and point is not None:
            undone = words.plural(point.undone_epochs, "epoch")
            typer.confirm(f"Undo {undone} of {self._stream}?", abort=True)

    def carry_out(self, *, why: str, patience_seconds: float) -> None:
        """Restore before somebody's eyes."""
        from orchestration.playbooks.restore import restore as playbook

        def steps(world: "Project", name: str, run: str) -> "Iterator[Performed[Any]]":
            return playbook(
                world,
                name,
                self._asked,
                run,
                why=why,
                keep_output=self._keep_output,
                patience_seconds=patience_seconds,
            )

        try:
            told = _told(self._tell, self._world, self._stream, steps, as_json=self._as_json)
        except KeyboardInterrupt as error:
            self._tell.err.print(self._interrupted(), soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from error
        if told.error is None and not self._as_json:
            self._tell.out.print(
                f"{DONE} {escape(self._stream)}  is back at epoch {self._plan.epoch}"
            )
        raise typer.Exit(0 if told.error is None else 1)

    def _interrupted(self) -> str:
        newest = self._world.store.histories.newest(self._stream)
        name = escape(self._stream)
        if newest is None or not newest.begun:
            return f"interrupted before anything was undone; {name} may have been stopped"
        if newest.finished:
            return f"interrupted: {name} is restored, and `holdfast start {name}` starts it"
        return f"interrupted: {name} is half restored, and `holdfast restore {name}` finishes it"


def _fork(
    tell: Terminal,
    world: "Project",
    stream: str,
    asked: "Asked",
    name: str,
    output: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from orchestration.playbooks.fork import fork, fork_plan
    from orchestration.restore_plans import fork_facts

    point, planned = fork_plan(world, stream, asked, name=name, output=output)
    if dry_run and as_json:
        _print_json(tell, planned, stream=stream, fork=name, **fork_facts(point))
        return
    if not as_json:
        tell.out.print(f"{escape(stream)} at epoch {point.epoch} → {escape(name)}")
    if dry_run:
        _print_steps(tell, planned)
        return

    def steps(world: "Project", forked: str, run: str) -> "Iterator[Performed[Any]]":
        return fork(world, stream, asked, run, name=forked, output=output)

    told = _told(tell, world, name, steps, as_json=as_json)
    if told.error is None and not as_json:
        tell.out.print(f"{NOTE} `holdfast start {escape(name)}` starts the fork")
    raise typer.Exit(0 if told.error is None else 1)


def _told(tell: Terminal, world: "Project", stream: str, steps: Playbook, *, as_json: bool) -> Told:
    console = None if as_json else tell.out
    (told,) = carry_out(world, [stream], steps, console, nothing_to_do="is restored")
    if as_json:
        tell.json(told.facts())
    return told


def _price(point: "Point") -> str:
    computed = point.last_decided - point.first_computed + 1
    start = "epoch 0" if point.snapshot is None else point.snapshot.id
    return (
        f"undoes {words.plural(point.undone_epochs, 'epoch')} with "
        f"{words.plural(point.undone_rows, 'row')} of output, computes "
        f"{words.plural(computed, 'epoch')} with {words.plural(point.computed_rows, 'row')} "
        f"of input again, from {start}"
    )


def _print_json(tell: Terminal, steps: list[Any], **about: Any) -> None:
    from orchestration.restore_plans import facts

    tell.json({**about, "steps": [facts(step) for step in steps]})


def _print_steps(tell: Terminal, steps: list[Any]) -> None:
    from orchestration.restore_plans import facts

    told = [facts(step) for step in steps]
    tell.out.print(plan_table(told) if told else f"{DONE} nothing to do")
