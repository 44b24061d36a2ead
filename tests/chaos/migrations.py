"""Chaos: migrations by every protocol, with source, target or run killed -9 at each step of them.

    python -m tests.chaos.migrations --minutes 60 --tiers passive_replication --protocols replay

One live stream for each tier goes through all of them and is proved at its end. A migration whose target
was killed may be rolled back or be finished; either way all replicas run by one declaration, and the tier is held.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ft_policies.errors import HoldfastError
from ft_policies.migration import Protocol
from ft_policies.tiers import Tier
from orchestration.playbooks.migrate import Wish, migration_plan
from resources.control.records import ReplicaRow
from tests.chaos.blows import alive
from tests.chaos.report import Trial
from tests.chaos.running import ChaosRun, carry_out, parser
from tests.support.live_stream import DECLARATION, NAME, LiveStream

WHOM = ("source", "target", "run")
TIERS = (Tier.PASSIVE_REPLICATION, Tier.PASSIVE_STANDBY_HOT)
LEAST_MEGABYTES = 1024


def migrate_and_strike(stream: LiveStream, protocol: Protocol, step: str, whom: str) -> str:
    """Migrate, kill somebody in a step, have it finished as the sensor would; how it ended."""
    source, store = stream.primary(), stream.world.store
    struck = "nobody"

    def kill(row: ReplicaRow | None) -> None:
        nonlocal struck
        if row is not None and alive(row):
            stream.hit(row)
            struck = whom

    if whom == "run":
        struck = _by_hand(stream, protocol, step)
    else:
        act = (lambda: kill(source)) if whom == "source" else (lambda: kill(_target(stream)))
        with stream.upon(step, act), suppress(HoldfastError):
            list(stream.migrate(Wish(protocol=protocol)))
    _finish(stream)
    newest, row = store.rollouts.history(NAME)[-1], store.streams.get(NAME)
    assert row is not None
    assert {one.rollout for one in store.replicas.of(NAME)} == {row.rollout}
    assert newest.done is not None
    assert newest.done == (row.rollout == newest.rollout)
    stream.await_epoch(stream.epoch() + 2)
    return f"{struck} killed, {'done' if newest.done else 'rolled back'}"


def _by_hand(stream: LiveStream, protocol: Protocol, step: str) -> str:
    """The playbook in a process of its own, as people and Dagster run it."""
    holdfast = Path(sys.executable).with_name("holdfast")
    command = [holdfast, "--project", stream.root, "migrate", NAME, "--protocol", protocol]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with run, stream.upon(step, run.kill):
        code = run.wait()
    assert code < 0, f"the run had ended with {code} before it was killed"
    return "run"


def _target(stream: LiveStream) -> ReplicaRow | None:
    rollout = stream.world.store.rollouts.open(NAME)
    live = stream.world.store.replicas.of(NAME)
    return next((one for one in live if rollout and one.rollout == rollout.rollout), None)


def _finish(stream: LiveStream, seconds: float = 240.0) -> None:
    """What the recovery sensor does until all is well."""
    tier, deadline = stream.look().tier, time.monotonic() + seconds
    while stream.world.store.rollouts.open(NAME) is not None or not stream.holds(tier):
        assert time.monotonic() < deadline, stream.story()
        with suppress(HoldfastError):
            stream.recover()


def in_tier(run: ChaosRun, tier: Tier, protocols: Sequence[Protocol]) -> None:
    """All protocols, steps and victims on one stream."""
    memory = LEAST_MEGABYTES

    def another_declaration(stream: LiveStream) -> None:
        nonlocal memory
        memory += 1
        resources = {**DECLARATION["resources"], "driver_memory": f"{memory}m"}
        stream.declare(resources=resources)

    def body(stream: LiveStream) -> None:
        for protocol in protocols:
            another_declaration(stream)
            plan = migration_plan(stream.world, NAME, Wish(protocol=protocol))
            for step in dict.fromkeys(type(one).__name__ for one in plan):
                for whom in WHOM:
                    run.demand_time(tier)
                    another_declaration(stream)
                    ended = migrate_and_strike(stream, protocol, step, whom)
                    run.report.note(Trial(part=tier, what=f"{protocol} {step}: {ended}"))

    run.on_a_stream(tier, tier, body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and say what came of it."""
    wanted = _parser().parse_args(arguments)

    def body(run: ChaosRun) -> None:
        for tier in wanted.tiers:
            in_tier(run, tier, wanted.protocols)

    return carry_out(wanted, body)


def _parser() -> argparse.ArgumentParser:
    options = parser("tests.chaos.migrations", __doc__)
    options.add_argument("--tiers", type=Tier, nargs="*", default=list(TIERS))
    options.add_argument("--protocols", type=Protocol, nargs="*", default=list(Protocol))
    return options


if __name__ == "__main__":
    sys.exit(main())
