"""Kill -9 of a stream's primary: what was said of it before, and what it took."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.failover_foretelling import Known, measured_steps, recovered_in
from benchmarks.failover_trial import Condition, wait
from benchmarks.live_project import story
from ft_policies.health import Health
from ft_policies.tiers import Tier
from resources.control.records import ReplicaRow
from resources.project import Project
from streaming.observing import observe


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """One kill: when, seconds until the next epoch and until the stream was level, and who went on."""

    at: float
    known: Known
    predicted: Mapping[str, float]
    to_next_epoch: float
    to_level: float
    """Not a number where the stream did not fall behind."""
    successor: ReplicaRow


def kill_primary(world: Project, stream: str, tier: Tier) -> Killed:
    """Kill the primary's driver, and wait until another one is level."""
    store, killed = world.store, observe(world, stream).primary
    assert killed is not None
    assert killed.pid is not None
    known = Known.of(world, stream)
    said = known.foretell(measured_steps(world, stream), tier)
    at = store.now()
    os.kill(killed.pid, signal.SIGKILL)
    last = store.ledger.last(stream)
    assert last is not None
    epoch = last.epoch + 1
    await_that(world, stream, lambda: store.ledger.get(stream, epoch) is not None, f"epoch {epoch}")
    entry = store.ledger.get(stream, epoch)
    assert entry is not None

    def successor() -> ReplicaRow | None:
        seen = observe(world, stream)
        is_new = seen.primary is not None and seen.primary.id != killed.id
        return seen.primary if is_new and seen.verdict.health is Health.HEALTHY else None

    await_that(world, stream, lambda: successor() is not None, "level successor")
    primary = successor()
    assert primary is not None
    return Killed(
        at=at,
        known=known,
        predicted=said,
        to_next_epoch=entry.committed_at - at,
        to_level=recovered_in(world, stream, since_at=at),
        successor=primary,
    )


def await_that(world: Project, stream: str, condition: Condition, what: str) -> None:
    """Wait for something of a stream; one that waits in vain is told what the stream does."""
    wait(condition, what, lambda: story(world, stream))
