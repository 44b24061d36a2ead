"""Chaos: every tier under kills and pauses, and all thirty changes between tiers on one live stream.

    python -m tests.chaos.walk --seed 7 --minutes 120

The same seed gives the same faults in the same order; when exactly they fall depends on the machine.
When time is up the stream at hand is still proved, and what was not done is said. Exit code 0: all
of it done and all held, 1: something did not hold, 2: out of time.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.ft_policies.tiers import Tier
from tests.chaos.chaos_run import ChaosRun, build_parser, run_chaos
from tests.chaos.circuit import build_circuit, seed_random
from tests.chaos.faults import (
    VICTIMS,
    Fault,
    change,
    kill_both,
    kill_during_change,
    kill_primary,
    kill_secondary,
    pause_primary,
    steps_between,
)
from tests.chaos.report import Trial
from tests.live.stream import LiveStream

KILLS = 10
SHARE_IN_THE_MIDDLE, SHARE_BETWEEN = 0.4, 0.4
OTHER_FAULTS = (pause_primary, kill_secondary, kill_both)


@dataclass(frozen=True, slots=True)
class Chaos:
    """What one seed makes of a run."""

    run: ChaosRun
    seed: int

    def kills(self, tier: Tier, count: int) -> None:
        """One tier on a stream of its own: many kills, then everything else that may happen."""
        chance = seed_random(f"{self.seed} {tier}")

        def body(stream: LiveStream) -> None:
            for number in range(count):
                self._inject(stream, tier, kill_primary, chance, f"{number + 1}/{count}", tier)
            for fault in OTHER_FAULTS:
                self._inject(stream, tier, fault, chance, "", tier)

        self.run.on_a_stream(tier, tier, body, both_send=tier is Tier.ACTIVE_REPLICATION)

    def walk(self, changes: int) -> None:
        """All changes of tier on one stream, with faults between them and in the middle of them."""
        chance = seed_random(f"{self.seed} walk")
        tiers = build_circuit(chance)[: changes + 1]

        def body(stream: LiveStream) -> None:
            for number, (before, after) in enumerate(pairwise(tiers), start=1):
                if chance.random() < SHARE_BETWEEN:
                    fault = chance.choice((kill_primary, *OTHER_FAULTS))
                    self._inject(stream, before, fault, chance, f"in {before}", "walk")
                self._change(stream, before, after, chance, f"{number}/{len(tiers) - 1}")

        self.run.on_a_stream("walk", tiers[0], body, both_send=True)

    def _inject(
        self,
        stream: LiveStream,
        tier: Tier,
        fault: Fault,
        chance: random.Random,
        which: str,
        part: str,
    ) -> None:
        self.run.require_time(part)
        what = f"{fault.__name__.replace('_', ' ')} {which}"
        self.run.report.note(Trial(part=part, what=what, seconds=fault(stream, tier, chance)))

    def _change(
        self, stream: LiveStream, before: Tier, after: Tier, chance: random.Random, which: str
    ) -> None:
        self.run.require_time("walk")
        how = ""
        if chance.random() < SHARE_IN_THE_MIDDLE:
            step = chance.choice(steps_between(before, after))
            whom, delay = chance.choice(VICTIMS), chance.random()
            when = kill_during_change(stream, after, step=step, whom=whom, delay=delay)
            how = f"({whom} killed {when})"
        else:
            change(stream, after)
        self.run.report.note(Trial(part="walk", what=f"{which} {before} to {after} {how}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run chaos and say what came of it."""
    wanted = _parser().parse_args(arguments)

    def body(run: ChaosRun) -> None:
        chaos = Chaos(run, wanted.seed)
        run.report.say(f"seed {wanted.seed}")
        if wanted.changes:
            chaos.walk(wanted.changes)
        for tier in wanted.tiers:
            chaos.kills(tier, wanted.kills)

    return run_chaos(wanted, body)


def _parser() -> argparse.ArgumentParser:
    options = build_parser("tests.chaos.walk", __doc__)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument(
        "--changes", type=int, default=30, help="changes of tier on the walk; 0: no walk"
    )
    options.add_argument(
        "--kills",
        type=int,
        default=KILLS,
        help="kills of the primary in each tier; 0: other faults only",
    )
    options.add_argument(
        "--tiers", type=Tier, nargs="*", default=list(Tier), help="tiers to strike in; empty: none"
    )
    return options


if __name__ == "__main__":
    sys.exit(main())
