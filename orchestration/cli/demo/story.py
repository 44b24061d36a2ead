"""The demo from start to end; every process is stopped afterwards, also after a failure."""

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
from holdfast.orchestration.cli.demo.outcome import DemoOutcome
from holdfast.orchestration.cli.demo.stage import STREAM, await_exit, stage
from holdfast.orchestration.cli.demo.timeline import Timeline
from holdfast.orchestration.cli.terminal import FAILED, Terminal, show_spinner
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.resources.project import Project, open_project

PATIENCE_SECONDS = 20.0


def play(terminal: Terminal, *, folder: Path | None, keep: bool, as_json: bool) -> bool:
    """Run the demo; whether the proof holds and no process was left running."""
    narrator = Narrator(terminal.err if as_json else terminal.out)
    with _terminable(), stage(folder, keep=keep) as root:
        narrator.line(f"[bold]demo project: {escape(str(root))}[/bold]")
        timeline, proof, objective = _acts(root, terminal, narrator, quiet=as_json)
        outcome = DemoOutcome(
            timeline=timeline, proof=proof, objective_seconds=objective, left=await_exit(root)
        )
    if as_json:
        terminal.json(outcome.as_dict())
    else:
        narrator.line("")
        terminal.out.print(outcome.table())
        if keep:
            narrator.line(f"\nkept: {escape(str(root))}")
    return outcome.holds


def _acts(
    root: Path, terminal: Terminal, narrator: Narrator, *, quiet: bool
) -> tuple[Timeline, Proof, float]:
    with open_project(root) as project, _stopping_all(project, root, narrator):
        start_object_store(project, terminal, quiet=quiet)
        start_dagster(project, terminal, port=None, quiet=quiet)
        begin(project, narrator)
        killed, killed_at = kill(project, narrator)
        timeline = watch(project, killed, killed_at, narrator)
        finish(project, narrator)
        with show_spinner(narrator.console, "recomputing the whole output in one batch"):
            proof = prove(project, STREAM, expected)
        objective = project.config.stream(STREAM).objective.recovery_time
    return timeline, proof, objective


@contextmanager
def _stopping_all(project: Project, root: Path, narrator: Narrator) -> Iterator[None]:
    """Stop everything at the end and on any failure; a second Ctrl-C does not interrupt it."""
    failed = True
    try:
        yield
        failed = False
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with show_spinner(narrator.console, "stopping everything"):
                _stop_all(project, narrator)
                if failed:
                    await_exit(root)
        finally:
            signal.signal(signal.SIGINT, before)


def _stop_all(project: Project, narrator: Narrator) -> None:
    def end_stream() -> None:
        stop = Stop(project, STREAM, "demo-end", patience_seconds=PATIENCE_SECONDS)
        for _ in stop.steps():
            pass

    def end_object_store() -> None:
        embedded = project.embedded_s3()
        if embedded is not None:
            embedded.stop()

    for end in (end_stream, DagsterServer(project.config).stop, end_object_store):
        try:
            end()
        except HoldfastError as error:
            narrator.line(f"{FAILED} {escape(str(error))}")


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
