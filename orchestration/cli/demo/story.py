"""The demo from curtain to curtain; whatever happens, the stage is empty afterwards."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.markup import escape

from apps.word_count.oracle import expected
from ft_policies.errors import HoldfastError
from orchestration.cli.commands.services import start_dagster, start_object_store
from orchestration.cli.demo.acts import Narrator, begin, finish, kill, watch
from orchestration.cli.demo.outcome import Outcome
from orchestration.cli.demo.stage import STREAM, see_off, stage
from orchestration.cli.demo.timeline import Timeline
from orchestration.cli.terminal import FAILED, Terminal, spinning
from orchestration.playbooks.lifecycle import Stop
from orchestration.proof import Proof, prove
from orchestration.services.dagster_server import DagsterServer
from streaming.world import World, open_world

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
    with open_world(root) as world, _cleared(world, root, tell):
        start_object_store(world, terminal, quiet=quiet)
        start_dagster(world, terminal, port=None, quiet=quiet)
        begin(world, tell)
        killed, killed_at = kill(world, tell)
        timeline = watch(world, killed, killed_at, tell)
        finish(world, tell)
        with spinning(tell.console, "computing the whole output again in one batch"):
            proof = prove(world, STREAM, expected)
        objective = world.project.stream(STREAM).objective.recovery_time
    return timeline, proof, objective


@contextmanager
def _cleared(world: World, root: Path, tell: Narrator) -> Iterator[None]:
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


def _clear(world: World, tell: Narrator) -> None:
    def end_stream() -> None:
        stop = Stop(world, STREAM, "demo-end", patience_seconds=HURRY_SECONDS)
        for _ in stop.steps():
            pass

    def end_object_store() -> None:
        embedded = world.embedded_s3()
        if embedded is not None:
            embedded.stop()

    for end in (end_stream, DagsterServer(world.project).stop, end_object_store):
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
