"""The faults that chaos injects into a live stream, and the recovery that follows.

Each fault leaves the stream in its tier again. The value is how long no epoch was committed, as far as
the control store shows it.
"""

import random
import signal
import time
from collections.abc import Callable
from typing import TypeAlias

from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.resources.control_store.records import JournalLine, Phase, ReplicaRow
from holdfast.resources.process import find_process
from tests.live.faults import POINTS, arm
from tests.live.stream import NAME, LiveStream

Fault: TypeAlias = Callable[[LiveStream, Tier, random.Random], float]
VICTIMS = ("primary", "secondary", "both")
SETTLE_EPOCHS = 2


def steps_between(before: Tier, after: Tier) -> tuple[str, ...]:
    """The steps that a change of tier surely has."""
    if before is Tier.PASSIVE_REPLICATION:
        return "LaunchSecondary", "TurnSwitch"
    return ("AwaitSecondaryExit",) if after is Tier.PASSIVE_REPLICATION else ("TurnSwitch",)


def kill_primary(stream: LiveStream, tier: Tier, chance: random.Random) -> float:
    """kill -9 at a chosen point of an epoch, or at any moment."""
    primary, point = stream.primary(), chance.choice((None, *POINTS))
    stream.await_epoch(stream.epoch() + SETTLE_EPOCHS)
    if point is None:
        time.sleep(chance.random())
        stream.hit(primary)
    else:
        arm(stream.root, point, stream.epoch(), replica=primary.id)
        stream.wait(lambda: not is_alive(primary), f"end of {primary.id} {point}")
    return _await_takeover(stream, tier, primary)


def pause_primary(stream: LiveStream, tier: Tier, _: random.Random) -> float:
    """SIGSTOP until another one is primary, then SIGCONT: it finds that it lost, and leaves."""
    paused = stream.signal(signal.SIGSTOP)
    seconds = _await_takeover(stream, tier, paused)
    stream.hit(paused, signal.SIGCONT)
    stream.wait(lambda: not is_alive(paused), f"end of {paused.id}, which was replaced", 30)
    return seconds


def kill_secondary(stream: LiveStream, tier: Tier, _: random.Random) -> float:
    """kill -9 the secondary: the stream does not notice."""
    primary = stream.primary()
    if SECONDARY[tier].deploy:
        stream.hit(stream.secondary())
    began, epoch = time.monotonic(), stream.epoch()
    stream.await_epoch(epoch + 1)
    seconds = time.monotonic() - began
    restore(stream, tier)
    assert stream.primary().id == primary.id, "the primary was replaced, too"
    return seconds


def kill_both(stream: LiveStream, tier: Tier, _: random.Random) -> float:
    """kill -9 everything at once."""
    primary = stream.primary()
    if SECONDARY[tier].deploy:
        stream.kill_both()
    else:
        stream.hit(primary)
    return _await_takeover(stream, tier, primary, alone=False)


def kill_during_change(
    stream: LiveStream, tier: Tier, *, step: str, whom: str, delay: float
) -> str:
    """Change the tier, and kill replicas during one of its steps; the value says in which step."""
    struck = "never"

    def strike() -> None:
        nonlocal struck
        time.sleep(delay)
        status = stream.look()
        struck = describe_moment(*stream.project.store.journal.of(NAME, limit=1))
        for slot, row in (("primary", status.primary), ("secondary", status.secondary)):
            if whom in (slot, "both") and row is not None and is_alive(row):
                stream.hit(row)

    with stream.upon(step, strike):
        change(stream, tier)
    return struck


def describe_moment(newest: JournalLine) -> str:
    """`in TurnSwitch` while that step is open; `after TurnSwitch` if it had ended before the fault."""
    return f"{'in' if newest.phase is Phase.INTENT else 'after'} {newest.step}"


def change(stream: LiveStream, tier: Tier) -> None:
    """Switch, and if something is in the way, recover: what the sensor does when a run has failed."""
    try:
        stream.switch(tier)
    except HoldfastError:
        stream.recover()
    restore(stream, tier)


def restore(stream: LiveStream, tier: Tier) -> None:
    """Recover, and see the tier covered."""
    stream.recover()
    stream.await_tier(tier)


def is_alive(row: ReplicaRow) -> bool:
    """Whether the process of a replica is there."""
    process = find_process(row)
    return process is not None and process.is_alive()


def _await_takeover(
    stream: LiveStream, tier: Tier, fallen: ReplicaRow, *, alone: bool = True
) -> float:
    """Let the secondary take over by itself, if there is one; without one, recover."""
    store, epoch = stream.project.store, stream.epoch()
    failed_at = store.now()

    def replaced() -> bool:
        primary = stream.look().primary
        return primary is not None and primary.id != fallen.id and stream.epoch() > epoch

    if not alone or not SECONDARY[tier].deploy:
        stream.await_failure()
        stream.recover()
    stream.wait(replaced, "next epoch of another primary")
    restore(stream, tier)
    (entry,) = store.ledger.between(NAME, epoch + 1, epoch + 1)
    return max(entry.committed_at - failed_at, 0.0)
