"""Chaos: every tier under kills and pauses, and all thirty changes between tiers on one live stream.

    python -m tests.chaos.walk --seed 7 --minutes 120

The same seed gives the same blows in the same order; when exactly they fall depends on the machine.
When time is up the stream at hand is still proved, and what was not done is said. Exit code 0: all
of it done and all held, 1: something did not hold, 2: out of time.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ft_policies.errors import HoldfastError
from ft_policies.tiers import Tier
from tests.chaos.blows import (
    WHOM,
    Blow,
    change,
    in_the_middle,
    kill_both,
    kill_primary,
    kill_secondary,
    pause_primary,
    steps_between,
)
from tests.chaos.circuit import chance_of, circuit
from tests.chaos.report import Report, Trial
from tests.support.evidence import demand_exact_output
from tests.support.live_stream import REPO, TIERED, LiveStream, a_live_stream

KILLS = 10
SHARE_IN_THE_MIDDLE, SHARE_BETWEEN = 0.4, 0.4
OTHER_BLOWS = (pause_primary, kill_secondary, kill_both)


class OutOfTimeError(Exception):
    """The run may take no longer."""


@dataclass(frozen=True, slots=True)
class Chaos:
    """One run: its seed, its folder, its end."""

    seed: int
    folder: Path
    deadline: float
    report: Report

    def kills(self, tier: Tier, count: int) -> None:
        """One tier on a stream of its own: many kills, then everything else that may happen."""
        chance = chance_of(f"{self.seed} {tier}")

        def body(stream: LiveStream) -> None:
            for number in range(count):
                self._blow(stream, tier, kill_primary, chance, f"{number + 1}/{count}", tier)
            for blow in OTHER_BLOWS:
                self._blow(stream, tier, blow, chance, "", tier)

        self._on_a_stream(tier, tier, body)

    def walk(self, changes: int) -> None:
        """All changes of tier on one stream, with blows between them and in the middle of them."""
        chance = chance_of(f"{self.seed} walk")
        tiers = circuit(chance)[: changes + 1]

        def body(stream: LiveStream) -> None:
            for number, (before, after) in enumerate(pairwise(tiers), start=1):
                if chance.random() < SHARE_BETWEEN:
                    blow = chance.choice((kill_primary, *OTHER_BLOWS))
                    self._blow(stream, before, blow, chance, f"in {before}", "walk")
                self._change(stream, before, after, chance, f"{number}/{len(tiers) - 1}")

        self._on_a_stream("walk", tiers[0], body)

    def _blow(
        self,
        stream: LiveStream,
        tier: Tier,
        blow: Blow,
        chance: random.Random,
        which: str,
        part: str,
    ) -> None:
        self._demand_time(part)
        what = f"{blow.__name__.replace('_', ' ')} {which}"
        self.report.note(Trial(part=part, what=what, seconds=blow(stream, tier, chance)))

    def _change(
        self, stream: LiveStream, before: Tier, after: Tier, chance: random.Random, which: str
    ) -> None:
        self._demand_time("walk")
        how = ""
        if chance.random() < SHARE_IN_THE_MIDDLE:
            step = chance.choice(steps_between(before, after))
            whom, delay = chance.choice(WHOM), chance.random()
            when = in_the_middle(stream, after, step=step, whom=whom, delay=delay)
            how = f"({whom} killed {when})"
        else:
            change(stream, after)
        self.report.note(Trial(part="walk", what=f"{which} {before} to {after} {how}"))

    def _on_a_stream(self, part: str, tier: Tier, body: Callable[[LiveStream], None]) -> None:
        try:
            self._demand_time(part)
            with a_live_stream(self.folder / part, **TIERED, tier=tier) as stream:
                stream.start()
                try:
                    body(stream)
                except OutOfTimeError as late:
                    self.report.undone.append(str(late))
                both_send = part in ("walk", Tier.ACTIVE_REPLICATION)
                demand_exact_output(stream, both_send=both_send)
                self.report.note(Trial(part=part, what=f"exact over {stream.epoch() + 1} epochs"))
        except OutOfTimeError as late:
            self.report.undone.append(str(late))
        except (AssertionError, HoldfastError, OSError) as error:
            story = self.folder / f"{part}.failure.txt"
            story.write_text(traceback.format_exc())
            summary = str(error).splitlines()[0][:200] if str(error) else repr(error)
            self.report.note(Trial(part=part, what=f"see {story}", failure=f"FAILED: {summary}"))

    def _demand_time(self, part: str) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTimeError(part)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run chaos and say what came of it."""
    wanted = _parser().parse_args(arguments)
    os.environ["PYTHONPATH"] = str(REPO)  # drivers must find the tests' own applications
    folder = wanted.folder or Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    report = Report()
    chaos = Chaos(wanted.seed, folder, time.monotonic() + wanted.minutes * 60.0, report)
    report.say(f"seed {wanted.seed}, at most {wanted.minutes:g} minutes, in {folder}")
    if wanted.changes:
        chaos.walk(wanted.changes)
    for tier in wanted.tiers:
        chaos.kills(tier, wanted.kills)
    sys.stdout.write(f"\n{report.table()}\n\n{report.verdict()}\n")
    if not report.failed:
        shutil.rmtree(folder, ignore_errors=True)
    return report.exit_code()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.walk", description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=120.0, help="start nothing after that")
    parser.add_argument(
        "--changes", type=int, default=30, help="changes of tier on the walk; 0: no walk"
    )
    parser.add_argument(
        "--kills",
        type=int,
        default=KILLS,
        help="kills of the primary in each tier; 0: other blows only",
    )
    parser.add_argument(
        "--tiers", type=Tier, nargs="*", default=list(Tier), help="tiers to strike in; empty: none"
    )
    parser.add_argument("--folder", type=Path, help="a new folder; kept if something did not hold")
    return parser


if __name__ == "__main__":
    sys.exit(main())
