"""The acts of the demo: run, kill, watch the recovery, stop. Each waits on facts, with a deadline."""

import os
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.status import observe_stream
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.demo.stage import STREAM
from holdfast.orchestration.cli.demo.timeline import Timeline, line_facts, read_timeline
from holdfast.orchestration.cli.playbook import step_facts, step_line
from holdfast.orchestration.cli.terminal import DONE, show_spinner
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.clock import SYSTEM_CLOCK, wait_until
from holdfast.resources.control_store.records import Phase, ReplicaRow
from holdfast.resources.process import find_process
from holdfast.resources.project import Project

EPOCHS_BEFORE = 20
EPOCHS_AFTER = 10
POLL_SECONDS = 0.2
REPORT_SECONDS = 5.0
RUN_SECONDS = 180.0
RECOVERY_SECONDS = 300.0


@dataclass(slots=True)
class Narrator:
    """Prints progress: one changing line on a terminal, a line every few seconds elsewhere."""

    console: Console
    _reported_at: float = 0.0

    def line(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(text, soft_wrap=True)

    def wait_until(
        self, is_over: Callable[[], bool], text: Callable[[], str], *, seconds: float
    ) -> None:
        """Wait for a condition and report progress; fails after the given time."""
        with show_spinner(self.console, text()) as change:

            def report() -> None:
                change(text())
                self._report(text)

            if not wait_until(
                is_over, patience_seconds=seconds, poll_seconds=POLL_SECONDS, keep_alive=report
            ):
                raise PermanentError(
                    f"the demo timed out after {seconds:.0f} s: {text()}",
                    hint="run it again with --keep and read the logs in its folder",
                )

    def _report(self, text: Callable[[], str]) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if not self.console.is_terminal and now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self.console.print(f"  {text()}", soft_wrap=True)


def begin(project: Project, narrator: Narrator) -> None:
    """Start the stream, and wait until it has committed epochs and shipped a snapshot."""
    narrator.line("\n[bold]1. run the stream[/bold]")
    for done in Start(project, STREAM, _run()).steps():
        narrator.line(step_line(STREAM, step_facts(done)))

    def enough() -> bool:
        last, newest = project.store.ledger.last(STREAM), project.store.snapshots.newest(STREAM)
        return last is not None and last.epoch + 1 >= EPOCHS_BEFORE and newest is not None

    narrator.wait_until(enough, lambda: _progress(project), seconds=RUN_SECONDS)
    narrator.line(f"{DONE} {_progress(project)}")


def kill(project: Project, narrator: Narrator) -> tuple[ReplicaRow, float]:
    """Kill the driver's Python process with SIGKILL, as a crash would."""
    narrator.line("\n[bold]2. kill its driver[/bold]")
    primary = observe_stream(project, STREAM).primary
    process = None if primary is None else find_process(primary)
    if primary is None or process is None or not process.is_alive():
        raise PermanentError(
            "the stream has no driver to kill", hint="run it again with --keep and read the logs"
        )
    killed_at = project.store.now()
    os.kill(process.pid, signal.SIGKILL)
    narrator.line(f"[red]✘ kill -9 {process.pid}[/red]  (the driver of {escape(primary.id)})")
    return primary, killed_at


def watch(project: Project, killed: ReplicaRow, killed_at: float, narrator: Narrator) -> Timeline:
    """Report each step of the recovery, until the new primary has committed enough epochs."""
    narrator.line("\n[bold]3. watch the recovery[/bold]")
    recovery = _RecoveryWatch(project, killed, killed_at, narrator)
    narrator.wait_until(recovery.is_over, recovery.progress, seconds=RECOVERY_SECONDS)
    narrator.line(
        f"{DONE} {fmt.plural(recovery.timeline.new_epochs, 'new epoch')} by the new primary"
    )
    return recovery.timeline


def finish(project: Project, narrator: Narrator) -> None:
    """Stop the stream gracefully."""
    narrator.line("\n[bold]4. stop it and prove the output[/bold]")
    for done in Stop(project, STREAM, _run()).steps():
        narrator.line(step_line(STREAM, step_facts(done)))


class _RecoveryWatch:
    """Polls a recovery and reports each event once."""

    def __init__(
        self, project: Project, killed: ReplicaRow, killed_at: float, narrator: Narrator
    ) -> None:
        self._project = project
        self._killed = killed
        self._killed_at = killed_at
        self._narrator = narrator
        self._reported: set[int] = set()
        self._detection_reported = False
        self._run_reported = False
        self.timeline = read_timeline(project, STREAM, killed, killed_at)

    def is_over(self) -> bool:
        """Poll; whether the stream has caught up and commits new epochs."""
        self.timeline = read_timeline(self._project, STREAM, self._killed, self._killed_at)
        self._report_detection()
        self._report_run()
        for line in self.timeline.lines:
            if line.phase is not Phase.INTENT and line.id not in self._reported:
                self._reported.add(line.id)
                after = fmt.seconds(self.timeline.after(line.at))
                step = step_line(STREAM, line_facts(line))
                self._narrator.line(f"{step}  [dim]{after} after the kill[/dim]")
        return self.timeline.caught_up_at is not None and self.timeline.new_epochs >= EPOCHS_AFTER

    def progress(self) -> str:
        """The current state in one line."""
        elapsed = fmt.seconds(self._project.store.now() - self._killed_at)
        if self.timeline.incident is None:
            return f"{elapsed} since the kill: not detected yet"
        if not self.timeline.lines:
            return f"{elapsed} since the kill: detected, Dagster starts the recovery run"
        new = fmt.plural(self.timeline.new_epochs, "new epoch")
        if self.timeline.caught_up_at is not None:
            return f"{elapsed} since the kill: caught up, {new}"
        return f"{elapsed} since the kill: {self.timeline.lines[-1].step}"

    def _report_detection(self) -> None:
        incident = self.timeline.incident
        if incident is None or self._detection_reported:
            return
        self._detection_reported = True
        after = fmt.seconds(self.timeline.after(incident.opened_at))
        reason = escape(incident.reason or incident.kind)
        self._narrator.line(
            f"{DONE} detected by the recovery sensor: {reason}  [dim]{after} after the kill[/dim]"
        )

    def _report_run(self) -> None:
        if self._run_reported or not self.timeline.lines:
            return
        self._run_reported = True
        first = self.timeline.lines[0]
        after = fmt.seconds(self.timeline.after(first.at))
        self._narrator.line(
            f"{DONE} Dagster run {escape(first.run[:8])} recovers the stream  [dim]{after} after the kill[/dim]"
        )


def _progress(project: Project) -> str:
    last, newest = project.store.ledger.last(STREAM), project.store.snapshots.newest(STREAM)
    epochs = 0 if last is None else last.epoch + 1
    shipped = (
        "no snapshot yet"
        if newest is None
        else f"newest snapshot: epoch {newest.epoch}, {fmt.size(newest.total_bytes)}"
    )
    return f"{fmt.plural(epochs, 'epoch')} committed, {shipped}"


def _run() -> str:
    return f"demo-{secrets.token_hex(4)}"
