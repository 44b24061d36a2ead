"""Chaos: migrations by every protocol, with source, target, run or Dagster killed -9 at each step of them.

    python -m tests.chaos.migrations --tiers passive_replication --protocols replay --victims run dagster

One live stream for each tier goes through all of them and is proved at its end. A migration whose target
was killed may be rolled back or be finished; either way all replicas run by one declaration, and the tier is covered.
A migration need not come to every step: a target that is near at once is not waited for, and nothing is killed then.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.jobs.lifecycle import MigrateConfig
from holdfast.orchestration.playbooks.migrate import Migrate, MigrationRequest
from holdfast.resources.control_store.records import ReplicaRow
from tests.chaos.chaos_run import ChaosRun, build_parser, run_chaos
from tests.chaos.faults import is_alive
from tests.chaos.report import Trial
from tests.live.dagster_server import LiveDagster, a_live_dagster
from tests.live.stream import DECLARATION, NAME, LiveStream

VICTIMS = ("source", "target", "run", "dagster")
TIERS = (Tier.PASSIVE_REPLICATION, Tier.PASSIVE_STANDBY_HOT)
LEAST_MEGABYTES = 1024
FINISH_SECONDS = 300.0


def migrate_and_kill(
    stream: LiveStream, dagster: LiveDagster, protocol: Protocol, step: str, whom: str
) -> str:
    """Migrate, kill the victim during a step, and await the end; the value says how it ended."""
    match whom:
        case "run":
            struck = _kill_run(stream, protocol, step)
        case "dagster":
            struck = _kill_dagster(stream, dagster, protocol, step)
        case _:
            struck = _kill_replica(stream, protocol, step, whom)
    store = stream.project.store
    newest, row = store.migrations.history(NAME)[-1], store.streams.get(NAME)
    assert row is not None
    assert {replica.rollout for replica in store.replicas.of(NAME)} == {row.rollout}
    assert newest.done is not None
    assert newest.done == (row.rollout == newest.rollout)
    stream.await_epoch(stream.epoch() + 2)
    return f"{struck} killed, {'done' if newest.done else 'rolled back'}"


def _kill_replica(stream: LiveStream, protocol: Protocol, step: str, whom: str) -> str:
    source, struck = stream.primary(), "nothing"

    def kill() -> None:
        nonlocal struck
        row = source if whom == "source" else _target(stream)
        if row is not None and is_alive(row):
            stream.hit(row)
            struck = whom

    with stream.upon(step, kill), suppress(HoldfastError):
        list(stream.migrate(MigrationRequest(protocol=protocol)))
    _finish(stream)
    return struck


def _kill_run(stream: LiveStream, protocol: Protocol, step: str) -> str:
    """The playbook in a process of its own, as the command line runs it."""
    holdfast = Path(sys.executable).with_name("holdfast")
    command = [holdfast, "--project", stream.root, "migrate", NAME, "--protocol", protocol]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with run, stream.upon(step, run.kill):
        code = run.wait()
    assert code <= 0, f"the run had ended with {code} before it was killed"
    _finish(stream)
    return "run" if code < 0 else "nothing"


def _kill_dagster(stream: LiveStream, dagster: LiveDagster, protocol: Protocol, step: str) -> str:
    """All of it, with the run; after its restart the sensor finishes the migration without help."""
    dagster.ensure()
    migrations = stream.project.store.migrations
    before = len(migrations.history(NAME))

    def is_migrated() -> bool:
        return len(migrations.history(NAME)) > before and _is_finished(stream)

    with stream.upon(step, dagster.kill):
        dagster.ask("migrate_stream", migrate=MigrateConfig(stream=NAME, protocol=protocol))
        stream.wait(lambda: dagster.is_gone() or is_migrated(), f"end in {step}", FINISH_SECONDS)
    struck = "dagster" if dagster.is_gone() else "nothing"
    dagster.ensure()
    stream.wait(is_migrated, "end of the migration by Dagster", FINISH_SECONDS)
    return struck


def _target(stream: LiveStream) -> ReplicaRow | None:
    migration = stream.project.store.migrations.open(NAME)
    live = stream.project.store.replicas.of(NAME)
    return next(
        (replica for replica in live if migration and replica.rollout == migration.rollout), None
    )


def _is_finished(stream: LiveStream) -> bool:
    return stream.project.store.migrations.open(NAME) is None and stream.holds(stream.look().tier)


def _finish(stream: LiveStream) -> None:
    """What the recovery sensor does until all is well."""
    deadline = time.monotonic() + FINISH_SECONDS
    while not _is_finished(stream):
        assert time.monotonic() < deadline, stream.story()
        with suppress(HoldfastError):
            stream.recover()


def in_tier(run: ChaosRun, tier: Tier, protocols: Sequence[Protocol], victims: set[str]) -> None:
    """All protocols, steps and victims on one stream."""
    memory = LEAST_MEGABYTES

    def another_declaration(stream: LiveStream) -> None:
        nonlocal memory
        memory += 1
        resources = {**DECLARATION["resources"], "driver_memory": f"{memory}m"}
        stream.declare(resources=resources)

    def body(stream: LiveStream) -> None:
        with a_live_dagster(stream.project.config) as dagster:
            # Dagster comes last: it is started for those who are killed with it.
            for whom, protocol in product(filter(victims.__contains__, VICTIMS), protocols):
                another_declaration(stream)
                plan = Migrate(
                    stream.project, NAME, "plan", request=MigrationRequest(protocol=protocol)
                ).plan()
                for step in dict.fromkeys(step.name for step in plan):
                    run.require_time(tier)
                    another_declaration(stream)
                    ended = migrate_and_kill(stream, dagster, protocol, step, whom)
                    run.report.note(Trial(part=tier, what=f"{protocol} {step}: {ended}"))

    run.on_a_stream(tier, tier, body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and say what came of it."""
    wanted = _parser().parse_args(arguments)

    def body(run: ChaosRun) -> None:
        for tier in wanted.tiers:
            in_tier(run, tier, wanted.protocols, set(wanted.victims))

    return run_chaos(wanted, body)


def _parser() -> argparse.ArgumentParser:
    options = build_parser("tests.chaos.migrations", __doc__)
    options.add_argument("--tiers", type=Tier, nargs="*", default=list(TIERS))
    options.add_argument("--protocols", type=Protocol, nargs="*", default=list(Protocol))
    options.add_argument("--victims", choices=VICTIMS, nargs="*", default=list(VICTIMS))
    return options


if __name__ == "__main__":
    sys.exit(main())
