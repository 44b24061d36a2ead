"""The commands of the operators of a soak: run to their end, or killed in the middle; what counts as done, and as refused."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import dagster as dg
from sqlalchemy.exc import OperationalError

from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.jobs.maintenance import PruneConfig, prune_snapshots
from holdfast.orchestration.schedules import UNFINISHED
from tests.chaos.soak_plan import Injection, NotApplicableError, Outcome
from tests.chaos.soak_project import PATIENCE_SECONDS, SoakProject, SoakStream, read_with_retries

COMMAND_SECONDS = 900.0
RUN_LOOK_SECONDS = 2.0
MOST_EPOCHS_BACK = 20
DONE = {"doctor": (0, 3, 4)}
"""Exit codes with which a command has done its work, if not 0 alone: the doctor's are what it has found."""
DRILL_ENDINGS = (" missed", "the stream was stopped before it was back")
"""How a drill says that its stream was not back in time: that exits with 1, without a hint."""


class Operator:
    """Runs `holdfast` commands on the streams of a project, and asks its Dagster for runs."""

    def __init__(self, soak: SoakProject) -> None:
        self._soak = soak
        self._memory_megabytes = 1024

    def _status(self, injection: Injection, stream: SoakStream) -> Outcome:
        return self._command("status", *injection.choose(((), (stream.name,), ("--json",))))

    def _doctor(self, injection: Injection, stream: SoakStream) -> Outcome:
        return self._command("doctor", stream.name, *injection.choose(((), ("--deep",))))

    def _snapshot(self, _: Injection, stream: SoakStream) -> Outcome:
        return self._command("snapshot", stream.name)

    def _switch(self, injection: Injection, stream: SoakStream) -> Outcome:
        return self._command("switch", stream.name, injection.choose(tuple(Tier)))

    def _migrate(self, injection: Injection, stream: SoakStream) -> Outcome:
        with stream.editing:
            return self._command(*self._prepare_migration(injection, stream))

    def _drill(self, injection: Injection, stream: SoakStream) -> Outcome:
        fault = injection.choose(("kill", "pause", "cut_off"))
        return self._command("drill", stream.name, "--fault", fault, "--seconds", "10", "--yes")

    def _compact(self, _: Injection, stream: SoakStream) -> Outcome:
        return self._command("compact", stream.name)

    def _restore(self, injection: Injection, stream: SoakStream) -> Outcome:
        outcome = self._command(*_restore_words(injection, stream))
        return self._finish_restore(stream) or outcome

    def _retention(self, _injection: Injection, _: SoakStream) -> Outcome:
        """A run of retention, to its end; one that is interrupted with Dagster has done nothing that counts."""
        try:
            run = self._soak.dagster.ask(prune_snapshots.name, prune=PruneConfig())
        except Exception as error:  # the client raises whatever its transport does
            raise NotApplicableError from error  # Dagster is not there to be asked
        status = self._await_run(run)
        what = f"run {run[:8]}: {status.value}"
        return Outcome(what, refused=status is not dg.DagsterRunStatus.SUCCESS)

    def _killed_command(self, injection: Injection, stream: SoakStream) -> str:
        return self._kill("switch", stream.name, injection.choose(tuple(Tier)), after=injection)

    def _killed_migrate(self, injection: Injection, stream: SoakStream) -> str:
        with stream.editing:
            killed = self._kill(*self._prepare_migration(injection, stream), after=injection)
        migrations = self._soak.project.store.migrations
        # the recovery sensor finishes it or takes it back
        stream.await_condition(
            lambda: migrations.open(stream.name) is None, "end of an interrupted migration"
        )
        return killed

    def _killed_restore(self, injection: Injection, stream: SoakStream) -> str:
        try:
            return self._kill(*_restore_words(injection, stream), after=injection)
        finally:
            self._finish_restore(stream)

    def _prepare_migration(self, injection: Injection, stream: SoakStream) -> tuple[str, ...]:
        """Edit the declaration; the command that brings it to the stream."""
        protocol = injection.choose(("interruption_free", "replay", "legacy"))
        declaration = json.loads(stream.file.read_text())
        self._memory_megabytes += 1
        declaration["resources"]["driver_memory"] = f"{self._memory_megabytes}m"
        stream.edit(json.dumps(declaration))
        return "migrate", stream.name, "--protocol", protocol

    def _finish_restore(self, stream: SoakStream) -> Outcome | None:
        """What the documentation advises for a restore that was cut short: run the command again."""
        outcome = None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while read_with_retries(stream.is_restoring):
            assert time.monotonic() < deadline, f"{stream.name}: unfinished: {outcome}"
            outcome = self._command("restore", stream.name, "--yes")
        return outcome

    def _command(self, *words: str) -> Outcome:
        """Run a command to its end, which has to be a documented one."""
        with self._start(words) as process:
            try:
                output, _ = process.communicate(timeout=COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(
                    f"{' '.join(words)}: no end in {COMMAND_SECONDS:.0f} s"
                ) from None
        return judge_command(words, process.returncode, output)

    def _kill(self, *words: str, after: Injection) -> str:
        """Start a command and kill it, unless it ends before."""
        with self._start(words) as process:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=after.seconds)
            process.kill()
        if process.returncode != -signal.SIGKILL:
            raise NotApplicableError
        return f"{' '.join(words)} after {after.seconds:.0f} s"

    def _start(self, words: Sequence[str]) -> "subprocess.Popen[str]":
        holdfast = Path(sys.executable).with_name("holdfast")
        return subprocess.Popen(
            [holdfast, "--project", self._soak.root, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def _await_run(self, run: str) -> dg.DagsterRunStatus:
        deadline = time.monotonic() + PATIENCE_SECONDS
        status = dg.DagsterRunStatus.QUEUED
        while status in UNFINISHED and time.monotonic() < deadline:
            time.sleep(RUN_LOOK_SECONDS)
            with suppress(OperationalError):  # another process writes to Dagster's storage
                status = self._soak.dagster.status_of(run)
        return status


def judge_command(words: Sequence[str], code: int, output: str) -> Outcome:
    """What a command came to; `AssertionError` if it has ended as no documentation says."""
    command = " ".join(words)
    story = f"{command}: exit code {code}: {output.strip()[-2000:]}"
    assert "Traceback" not in output, story
    if code in DONE.get(words[0], (0,)):
        return Outcome(f"{command}: {code}")
    assert code == 1, story
    endings = ("hint:", *(DRILL_ENDINGS if words[0] == "drill" else ()))
    assert any(ending in output for ending in endings), story
    return Outcome(f"{command}: 1, {' '.join(output.split())[-150:]}", refused=True)


def _restore_words(injection: Injection, stream: SoakStream) -> tuple[str, ...]:
    back = 1 + int(injection.draw * MOST_EPOCHS_BACK)
    epoch = max(0, read_with_retries(stream.epoch) - back)
    return "restore", stream.name, "--epoch", str(epoch), "--yes"
