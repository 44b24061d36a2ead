"""`holdfast restore`: take a stream back to a past epoch, in place or as a fork."""

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.markup import escape

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.timings import LEAVE_WITHIN_SECONDS
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.playbook import (
    Conclusion,
    PlaybookCommand,
    PlaybookOutcome,
    new_run,
)
from holdfast.orchestration.cli.terminal import (
    DEFAULT_REASON,
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

NOTHING = f"{DONE} nothing to do"


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Examples:  holdfast restore word_count --epoch 120 --dry-run  ·  "
        "holdfast restore word_count --at 2026-11-17T02:30:00 --as word_count_trial"
    )(restore)


def restore(
    ctx: typer.Context,
    *,
    stream: Stream,
    epoch: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Restore to the state after this epoch.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Restore to the last epoch up to this time (ISO 8601; UTC if it has no zone).",
        ),
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="ID", help="Restore to the epoch of this snapshot.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Create a fork of this name; the original is only read."
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="PATH", help="The output path of the fork.")
    ] = None,
    place: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Read the snapshot from a place of configs/holdfast.yaml.",
        ),
    ] = None,
    keep_output: Annotated[
        bool,
        typer.Option("--keep-output", help="Do not roll back the output of a custom sink."),
    ] = False,
    patience: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="SECONDS", help="Kill a replica that has not stopped after this time."
        ),
    ] = LEAVE_WITHIN_SECONDS,
    why: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason, for the history.")
    ] = DEFAULT_REASON,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Restore without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take state and output of a stream back to a past epoch, in place or as a fork.

    The epochs after that point are computed again from the same input. Without a point, the command
    finishes an interrupted restore.
    """
    if output is not None and name is None:
        raise typer.BadParameter("--output needs --as: only a fork has its own output")
    if as_json and not (yes or dry_run or name):
        raise typer.BadParameter("--json cannot ask: add --yes")
    term, target = terminal(ctx), _target(epoch, at, snapshot, place)
    with term.open_storage(stream) as project:
        if name is not None:
            _fork(term, project, stream, target, name, output, dry_run=dry_run, as_json=as_json)
            return
        restore = _InPlace(term, project, stream, target, keep_output=keep_output, as_json=as_json)
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
    """A restore in place; its construction fails if the restore is refused."""

    def __init__(
        self,
        term: Terminal,
        project: "Project",
        stream: str,
        target: "RestoreTarget",
        *,
        keep_output: bool,
        as_json: bool,
    ) -> None:
        from holdfast.orchestration.playbooks.restore.restore import Restore

        self._term, self._project, self._stream, self._target = term, project, stream, target
        self._keep_output, self._as_json = keep_output, as_json
        self._preview = Restore(
            project, stream, "", target=target, keep_output=keep_output
        ).look_ahead()

    def show(self, *, dry_run: bool) -> None:
        """Print what will be undone; in a dry run also the steps."""
        from holdfast.orchestration.playbooks.restore.point import point_numbers

        point = self._preview.point
        if not self._as_json:
            goal = f"{escape(self._stream)} → epoch {self._preview.epoch}"
            cost = "" if point is None else f"  [dim]({_describe_cost(point)})[/dim]"
            self._term.out.print(goal + cost, soft_wrap=True)
        if dry_run:
            numbers = {} if point is None else point_numbers(point)
            command = self._command("", 0.0)
            command.show(self._preview.steps, stream=self._stream, otherwise=NOTHING, **numbers)

    def confirm(self, *, yes: bool) -> None:
        """Ask for consent, unless nothing is left to undo."""
        point = self._preview.point
        if not yes and point is not None:
            undone = fmt.plural(point.undone_epochs, "epoch")
            typer.confirm(f"Undo {undone} of {self._stream}?", abort=True)

    def run(self, *, why: str, patience_seconds: float) -> NoReturn:
        """Restore, and exit with the command's code."""
        self._command(why, patience_seconds).run(
            self._stream, conclude=self._conclude, interrupted=self._describe_interruption
        )

    def _command(self, why: str, patience_seconds: float) -> PlaybookCommand:
        def build(project: "Project", stream: str, run: str) -> "Restore":
            from holdfast.orchestration.playbooks.restore.restore import Restore

            return Restore(
                project,
                stream,
                run,
                target=self._target,
                why=why,
                keep_output=self._keep_output,
                patience_seconds=patience_seconds,
            )

        return PlaybookCommand(
            term=self._term,
            project=self._project,
            build=build,
            nothing_to_do="is restored",
            as_json=self._as_json,
        )

    def _conclude(self, outcome: PlaybookOutcome) -> Conclusion:
        if outcome.error is not None:
            return Conclusion()
        return Conclusion(
            message=f"{DONE} {escape(self._stream)}  restored to epoch {self._preview.epoch}"
        )

    def _describe_interruption(self) -> str:
        newest = self._project.store.restores.newest(self._stream)
        name = escape(self._stream)
        if newest is None or not newest.closed:
            return f"interrupted before anything was undone; {name} may have been stopped"
        if newest.finished:
            return f"interrupted: {name} is restored; run `holdfast start {name}` to start it"
        return f"interrupted: {name} is half restored; run `holdfast restore {name}` to finish"


def _fork(
    term: Terminal,
    project: "Project",
    stream: str,
    target: "RestoreTarget",
    into: str,
    output: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from holdfast.orchestration.playbooks.restore.fork import Fork

    def build(project: "Project", into: str, run: str) -> Fork:
        return Fork(project, stream, run, into=into, target=target, output=output)

    command = PlaybookCommand(
        term=term, project=project, build=build, nothing_to_do="is restored", as_json=as_json
    )
    fork = build(project, into, new_run())
    steps, point = fork.plan(), fork.point
    if not as_json:
        term.out.print(f"{escape(stream)} at epoch {point.epoch} → {escape(into)}")
    if dry_run:
        facts = {"fork": into, "epoch": point.epoch, "snapshot": point.snapshot_id}
        command.show(steps, stream=stream, otherwise=NOTHING, **facts)
        return
    command.run(into, conclude=_conclude_fork)


def _conclude_fork(outcome: PlaybookOutcome) -> Conclusion:
    if outcome.error is not None:
        return Conclusion()
    name = escape(outcome.stream)
    return Conclusion(message=f"{NOTE} run `holdfast start {name}` to start the fork")


def _describe_cost(point: "RestorePoint") -> str:
    computed = point.last_decided - point.first_computed + 1
    start = "epoch 0" if point.snapshot is None else point.snapshot.id
    return (
        f"undoes {fmt.plural(point.undone_epochs, 'epoch')} with "
        f"{fmt.plural(point.undone_rows, 'row')} of output, recomputes "
        f"{fmt.plural(computed, 'epoch')} with {fmt.plural(point.computed_rows, 'row')} "
        f"of input from {start}"
    )
