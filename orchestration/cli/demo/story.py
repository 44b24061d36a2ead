"""The demo from curtain to curtain; whatever happens, the stage is empty afterwards."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.markup import escape

from holdfast.apps.word_count.oracle import expected
from holdfast.ft_policies.errors import HoldfastError
from holdfast.observation.proof import Proof, prove
from holdfast.orchestration.cli.commands.services import start_dagster, start_object_store
from holdfast.orchestration.cli.demo.acts import Narrator, begin, finish, kill, watch
from holdfast.orchestration.cli.demo.outcome import Outcome
from holdfast.orchestration.cli.demo.stage import STREAM, see_off, stage
from holdfast.orchestration.cli.demo.timeline import Timeline
from holdfast.orchestration.cli.terminal import FAILED, Terminal, spinning
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.resources.project import Project, open_project

HURRY_SECONDS = 20.0


def play(terminal: Terminal, *, folder: Path | None, keep: bool, as_json: bool) -> bool:
    """Play the demo; whether the proof holds and nothing is left running."""
    tell = Narrator(terminal.err if as_json else terminal.out)
    with _terminable(), stage(folder, keep=keep) as root:
        tell.line(f"[bold]the demo plays in {escape(str(root))}[/bold]")
        timeline, proof, objective = _acts(root, terminal, tell, quiet=as_json)
        outcome = Outcome(
            timeline=timeline, proof=proof, objective_seconds=objective, left=see_off(root)
        )
    if as_json:
        terminal.json(outcome.facts())
    else:
        tell.line("")
        terminal.out.print(outcome.table())
        if keep:
            tell.line(f"\nkept: {escape(str(root))}")
    return outcome.holds


def _acts(
    root: Path, terminal: Terminal, tell: Narrator, *, quiet: bool
) -> tuple[Timeline, Proof, float]:
    with open_project(root) as world, _cleared(world, root, tell):
        start_object_store(world, terminal, quiet=quiet)
        start_dagster(world, terminal, port=None, quiet=quiet)
        begin(world, tell)
        killed, killed_at = kill(world, tell)
        timeline = watch(world, killed, killed_at, tell)
        finish(world, tell)
        with spinning(tell.console, "computing the whole output again in one batch"):
            proof = prove(world, STREAM, expected)
        objective = world.config.stream(STREAM).objective.recovery_time
    return timeline, proof, objective


@contextmanager
def _cleared(world: Project, root: Path, tell: Narrator) -> Iterator[None]:
    """Stop whatever runs, at the end and on any failure; a second Ctrl-C does not interrupt it."""
    failed = True
    try:
        yield
        failed = False
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with spinning(tell.console, "stopping everything"):
                _clear(world, tell)
                if failed:
                    see_off(root)
        finally:
            signal.signal(signal.SIGINT, before)


def _clear(world: Project, tell: Narrator) -> None:
    def end_stream() -> None:
        stop = Stop(world, STREAM, "demo-end", patience_seconds=HURRY_SECONDS)
        for _ in stop.steps():
            pass

    def end_object_store() -> None:
        embedded = world.embedded_s3()
        if embedded is not None:
            embedded.stop()

    for end in (end_stream, DagsterServer(world.config).stop, end_object_store):
        try:
            end()
        except HoldfastError as error:
            tell.line(f"{FAILED} {escape(str(error))}")


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the demo as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
