"""What all chaos has in common: a time by which it ends, a report, and live streams that are proved."""

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.tiers import Tier
from tests.chaos.report import Report, Trial
from tests.live.stream import REPO, TIERED, LiveStream, a_live_stream, require_exact_output


class OutOfTimeError(Exception):
    """The run may take no longer."""


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """One run: its folder, its end, what it has seen."""

    folder: Path
    deadline: float
    report: Report

    def require_time(self, part: str) -> None:
        """Begin nothing new when time is up."""
        if time.monotonic() > self.deadline:
            raise OutOfTimeError(part)

    def on_a_stream(
        self,
        part: str,
        tier: Tier,
        body: Callable[[LiveStream], None],
        *,
        both_send: bool = False,
    ) -> None:
        """Do it to a live stream of its own, and prove what that has put out."""
        try:
            self.require_time(part)
            with a_live_stream(self.folder / part, **TIERED, tier=tier) as stream:
                stream.start()
                try:
                    body(stream)
                except OutOfTimeError as late:
                    self.report.undone.append(str(late))
                require_exact_output(stream, both_send=both_send)
                self.report.note(Trial(part=part, what=f"exact over {stream.epoch() + 1} epochs"))
        except OutOfTimeError as late:
            self.report.undone.append(str(late))
        except (AssertionError, HoldfastError, OSError) as error:
            story = self.folder / f"{part}.failure.txt"
            story.write_text(traceback.format_exc())
            summary = str(error).splitlines()[0][:200] if str(error) else repr(error)
            self.report.note(Trial(part=part, what=f"see {story}", failure=f"FAILED: {summary}"))


def build_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """The options of every chaos."""
    options = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    options.add_argument("--minutes", type=float, default=120.0, help="start nothing after that")
    options.add_argument("--folder", type=Path, help="a new folder; kept if something did not hold")
    return options


def run_chaos(
    wanted: argparse.Namespace, body: Callable[[ChaosRun], None], report: Report | None = None
) -> int:
    """Let it happen, and say what came of it."""
    os.environ["PYTHONPATH"] = str(REPO)  # drivers must find the tests' own applications
    folder = wanted.folder or Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    report = report or Report()
    report.say(f"at most {wanted.minutes:g} minutes, in {folder}")
    body(ChaosRun(folder, time.monotonic() + wanted.minutes * 60.0, report))
    sys.stdout.write(f"\n{report.table()}\n\n{report.verdict()}\n")
    if not report.failed:
        shutil.rmtree(folder, ignore_errors=True)
    return report.exit_code()
