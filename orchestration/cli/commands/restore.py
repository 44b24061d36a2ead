"""`holdfast restore`: a stream back at a past epoch, in place or as a fork."""

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.markup import escape

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.playbook import (
    Conclusion,
    PlaybookCommand,
    PlaybookOutcome,
    new_run,
)
from holdfast.orchestration.cli.storage import storage
from holdfast.orchestration.cli.terminal import (
    DONE,
    NOTE,
    DryRunOption,
    JsonOption,
    Stream,
    Terminal,
    terminal,
)

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.restore.point import RestorePoint, RestoreTarget
    from holdfast.orchestration.playbooks.restore.restore import Restore
    from holdfast.resources.project import Project

ASKED = "asked on the command line"
NOTHING = f"{DONE} nothing to do"


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
    tell, target = terminal(ctx), _target(epoch, at, snapshot, place)
    with storage(tell, stream) as world:
        if name is not None:
            _fork(tell, world, stream, target, name, output, dry_run=dry_run, as_json=as_json)
            return
        restore = _InPlace(tell, world, stream, target, keep_output=keep_output, as_json=as_json)
        restore.show(dry_run=dry_run)
        if not dry_run:
            restore.confirm(yes=yes)
            restore.run(why=why, patience_seconds=patience)


def _target(
    epoch: int | None, at: str | None, snapshot: str | None, place: str | None
) -> "RestoreTarget":
    from holdfast.orchestration.playbooks.restore.point import RestoreTarget, parse_time

    try:
        seconds = None if at is None else parse_time(at)
        return RestoreTarget(epoch=epoch, at=seconds, snapshot=snapshot, place=place)
    except PermanentError as error:
        raise typer.BadParameter(f"{error}: {error.hint}") from error


class _InPlace:
    """A restore in place that is not refused."""

    def __init__(
        self,
        tell: Terminal,
        world: "Project",
        stream: str,
        target: "RestoreTarget",
        *,
        keep_output: bool,
        as_json: bool,
    ) -> None:
        from holdfast.orchestration.playbooks.restore.restore import Restore

        self._tell, self._world, self._stream, self._target = tell, world, stream, target
        self._keep_output, self._as_json = keep_output, as_json
        self._ahead = Restore(
            world, stream, "", target=target, keep_output=keep_output
        ).look_ahead()

    def show(self, *, dry_run: bool) -> None:
        """Say what will be undone; a dry run also shows the steps."""
        from holdfast.orchestration.playbooks.restore.point import point_numbers

        point = self._ahead.point
        if not self._as_json:
            goal = f"{escape(self._stream)} → epoch {self._ahead.epoch}"
            price = "" if point is None else f"  [dim]({_price(point)})[/dim]"
            self._tell.out.print(goal + price, soft_wrap=True)
        if dry_run:
            numbers = {} if point is None else point_numbers(point)
            command = self._command("", 0.0)
            command.show(self._ahead.steps, stream=self._stream, otherwise=NOTHING, **numbers)

    def confirm(self, *, yes: bool) -> None:
        """Ask, unless there is nothing left to be undone."""
        point = self._ahead.point
        if not yes and point is not None:
            undone = words.plural(point.undone_epochs, "epoch")
            typer.confirm(f"Undo {undone} of {self._stream}?", abort=True)

    def run(self, *, why: str, patience_seconds: float) -> NoReturn:
        """Restore with progress on the screen."""
        self._command(why, patience_seconds).run(
            self._stream, conclude=self._conclude, interrupted=self._interrupted
        )

    def _command(self, why: str, patience_seconds: float) -> PlaybookCommand:
        def build(world: "Project", stream: str, run: str) -> "Restore":
            from holdfast.orchestration.playbooks.restore.restore import Restore

            return Restore(
                world,
                stream,
                run,
                target=self._target,
                why=why,
                keep_output=self._keep_output,
                patience_seconds=patience_seconds,
            )

        return PlaybookCommand(
            tell=self._tell,
            world=self._world,
            build=build,
            nothing_to_do="is restored",
            as_json=self._as_json,
        )

    def _conclude(self, outcome: PlaybookOutcome) -> Conclusion:
        if outcome.error is not None:
            return Conclusion()
        return Conclusion(
            message=f"{DONE} {escape(self._stream)}  is back at epoch {self._ahead.epoch}"
        )

    def _interrupted(self) -> str:
        newest = self._world.store.restores.newest(self._stream)
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
    target: "RestoreTarget",
    into: str,
    output: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from holdfast.orchestration.playbooks.restore.fork import Fork

    def build(world: "Project", into: str, run: str) -> Fork:
        return Fork(world, stream, run, into=into, target=target, output=output)

    command = PlaybookCommand(
        tell=tell, world=world, build=build, nothing_to_do="is restored", as_json=as_json
    )
    fork = build(world, into, new_run())
    steps, point = fork.plan(), fork.point
    if not as_json:
        tell.out.print(f"{escape(stream)} at epoch {point.epoch} → {escape(into)}")
    if dry_run:
        where = {"fork": into, "epoch": point.epoch, "snapshot": point.snapshot_id}
        command.show(steps, stream=stream, otherwise=NOTHING, **where)
        return
    command.run(into, conclude=_conclude_fork)


def _conclude_fork(outcome: PlaybookOutcome) -> Conclusion:
    if outcome.error is not None:
        return Conclusion()
    name = escape(outcome.stream)
    return Conclusion(message=f"{NOTE} `holdfast start {name}` starts the fork")


def _price(point: "RestorePoint") -> str:
    computed = point.last_decided - point.first_computed + 1
    start = "epoch 0" if point.snapshot is None else point.snapshot.id
    return (
        f"undoes {words.plural(point.undone_epochs, 'epoch')} with "
        f"{words.plural(point.undone_rows, 'row')} of output, computes "
        f"{words.plural(computed, 'epoch')} with {words.plural(point.computed_rows, 'row')} "
        f"of input again, from {start}"
    )
