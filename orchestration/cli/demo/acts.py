"""The acts of the demo: run, kill, watch the recovery, stop. Each waits on facts, with a deadline."""

import os
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.status import observe
from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.demo.stage import STREAM
from holdfast.orchestration.cli.demo.timeline import Timeline, line_facts, read
from holdfast.orchestration.cli.playbook import step_facts, step_line
from holdfast.orchestration.cli.terminal import DONE, spinning
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import Phase, ReplicaRow
from holdfast.resources.process import process_of
from holdfast.resources.project import Project

EPOCHS_BEFORE = 20
EPOCHS_AFTER = 10
LOOK_SECONDS = 0.2
TELL_SECONDS = 5.0
RUN_SECONDS = 180.0
RECOVERY_SECONDS = 300.0


@dataclass(slots=True)
class Narrator:
    """Says what goes on: one line that changes on a terminal, a line now and then elsewhere."""

    console: Console
    _told_at: float = 0.0

    def line(self, text: str) -> None:
        """Say something that stays."""
        self.console.print(text, soft_wrap=True)

    def until(self, over: Callable[[], bool], text: Callable[[], str], *, seconds: float) -> None:
        """Wait for something, telling how it goes."""
        deadline = SYSTEM_CLOCK.monotonic() + seconds
        with spinning(self.console, text()) as change:
            while not over():
                if SYSTEM_CLOCK.monotonic() > deadline:
                    raise PermanentError(
                        f"the demo waited {seconds:.0f} s in vain: {text()}",
                        hint="run it again with --keep and look at the logs in its folder",
                    )
                change(text())
                self._now_and_then(text)
                SYSTEM_CLOCK.sleep(LOOK_SECONDS)

    def _now_and_then(self, text: Callable[[], str]) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if not self.console.is_terminal and now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            self.console.print(f"  {text()}", soft_wrap=True)


def begin(world: Project, tell: Narrator) -> None:
    """Start the stream, and let it commit epochs and ship a snapshot."""
    tell.line("\n[bold]1. the stream runs[/bold]")
    for performed in Start(world, STREAM, _run()).steps():
        tell.line(step_line(STREAM, step_facts(performed)))

    def enough() -> bool:
        last, newest = world.store.ledger.last(STREAM), world.store.snapshots.newest(STREAM)
        return last is not None and last.epoch + 1 >= EPOCHS_BEFORE and newest is not None

    tell.until(enough, lambda: _progress(world), seconds=RUN_SECONDS)
    tell.line(f"{DONE} {_progress(world)}")


def kill(world: Project, tell: Narrator) -> tuple[ReplicaRow, float]:
    """Kill the driver as a crash would: at once, the Python process only."""
    tell.line("\n[bold]2. its driver crashes[/bold]")
    primary = observe(world, STREAM).primary
    process = None if primary is None else process_of(primary)
    if primary is None or process is None or not process.is_alive():
        raise PermanentError(
            "the stream has no driver to kill", hint="run the demo with --keep and read the logs"
        )
    killed_at = world.store.now()
    os.kill(process.pid, signal.SIGKILL)
    tell.line(f"[red]✘ kill -9 {process.pid}[/red]  (the driver of {escape(primary.id)})")
    return primary, killed_at


def watch(world: Project, killed: ReplicaRow, killed_at: float, tell: Narrator) -> Timeline:
    """Tell each step of the recovery as it happens, until the new replica has done its share."""
    tell.line("\n[bold]3. it is recovered[/bold]")
    watched = _Watched(world, killed, killed_at, tell)
    tell.until(watched.over, watched.words, seconds=RECOVERY_SECONDS)
    tell.line(f"{DONE} {words.plural(watched.seen.new_epochs, 'new epoch')} by its successor")
    return watched.seen


def finish(world: Project, tell: Narrator) -> None:
    """Stop the stream gracefully."""
    tell.line("\n[bold]4. it is stopped, and proven[/bold]")
    for performed in Stop(world, STREAM, _run()).steps():
        tell.line(step_line(STREAM, step_facts(performed)))


class _Watched:
    """A recovery under observation: what is new is told once."""

    def __init__(
        self, world: Project, killed: ReplicaRow, killed_at: float, tell: Narrator
    ) -> None:
        self._world = world
        self._killed = killed
        self._killed_at = killed_at
        self._tell = tell
        self._told: set[int] = set()
        self._detected = False
        self._run_told = False
        self.seen = read(world, STREAM, killed, killed_at)

    def over(self) -> bool:
        """Look again; whether the stream is level and goes on."""
        self.seen = read(self._world, STREAM, self._killed, self._killed_at)
        self._tell_detection()
        self._tell_run()
        for line in self.seen.lines:
            if line.phase is not Phase.INTENT and line.id not in self._told:
                self._told.add(line.id)
                after = words.seconds(self.seen.after(line.at))
                told = step_line(STREAM, line_facts(line))
                self._tell.line(f"{told}  [dim]{after} after the kill[/dim]")
        return self.seen.level_at is not None and self.seen.new_epochs >= EPOCHS_AFTER

    def words(self) -> str:
        """How it goes."""
        elapsed = words.seconds(self._world.store.now() - self._killed_at)
        if self.seen.incident is None:
            return f"{elapsed} since the kill: nobody has noticed yet"
        if not self.seen.lines:
            return f"{elapsed} since the kill: Dagster starts the recovery run"
        new = words.plural(self.seen.new_epochs, "new epoch")
        if self.seen.level_at is not None:
            return f"{elapsed} since the kill: level, {new}"
        return f"{elapsed} since the kill: {self.seen.lines[-1].step}"

    def _tell_detection(self) -> None:
        incident = self.seen.incident
        if incident is None or self._detected:
            return
        self._detected = True
        after = words.seconds(self.seen.after(incident.opened_at))
        reason = escape(str(incident.detail.get("reason", incident.kind)))
        self._tell.line(
            f"{DONE} detected by the sensor: {reason}  [dim]{after} after the kill[/dim]"
        )

    def _tell_run(self) -> None:
        if self._run_told or not self.seen.lines:
            return
        self._run_told = True
        first = self.seen.lines[0]
        after = words.seconds(self.seen.after(first.at))
        self._tell.line(
            f"{DONE} Dagster run {escape(first.run[:8])} is at work  [dim]{after} after the kill[/dim]"
        )


def _progress(world: Project) -> str:
    last, newest = world.store.ledger.last(STREAM), world.store.snapshots.newest(STREAM)
    epochs = 0 if last is None else last.epoch + 1
    shipped = (
        "no snapshot yet"
        if newest is None
        else f"newest snapshot: epoch {newest.epoch}, {words.size(newest.total_bytes)}"
    )
    return f"{words.plural(epochs, 'epoch')} committed, {shipped}"


def _run() -> str:
    return f"demo-{secrets.token_hex(4)}"
