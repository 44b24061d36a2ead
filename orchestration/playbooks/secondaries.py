"""The steps of the recover playbook that concern the secondary.

It may become the primary at any moment, by itself. So each write names the slot, and does nothing to
what is the primary by then. And people may want another tier at any moment: what asks something of a
secondary looks first whether that is still the step to take.
"""

from collections.abc import Mapping
from typing import Any

from ft_policies.errors import TransientError
from ft_policies.health import Health
from ft_policies.migration import HandOver
from ft_policies.recovery import (
    AwaitSecondaryEnd,
    AwaitTakeover,
    EndSecondary,
    TurnSwitch,
    next_step,
)
from ft_policies.tiers import OFF, Switch
from ft_policies.transitions import Turn
from orchestration.playbooks.leaving import await_leave
from orchestration.playbooks.watching import NOT_DUE, Watch
from resources.control.records import ReplicaState, Slot
from resources.control.store import ControlStore
from streaming.launching import launch_secondary
from streaming.observing import StreamSeen

TAKEOVER_SECONDS = 10.0


def launch(watch: Watch) -> Mapping[str, Any]:
    """Start a secondary, unless there is one."""
    watch.world.ensure_object_store()
    row = launch_secondary(watch.world.config, watch.world.store, watch.stream)
    return {"replica": None if row is None else row.id}


def end(watch: Watch, step: EndSecondary) -> Mapping[str, Any]:
    """Note the end of a secondary that counts as failed; it leaves as soon as it reads so."""
    watch.world.store.replicas.end(
        step.secondary, ReplicaState.FENCED, step.reason, slot=Slot.SECONDARY
    )
    return {}


def turn(watch: Watch, step: TurnSwitch) -> Mapping[str, Any]:
    """Ask for one turn and see it happen; a secondary that cannot do it is good for what it has on."""
    store, seen = watch.world.store, watch.look()
    look = seen.secondary_look()
    if look is None or next_step(seen.observed()) != step:
        return {"found": NOT_DUE}
    asked = look.asked(Turn(step.switch, step.on), seen.observed().wanted)
    generation = store.replicas.desire(look.id, asked, slot=Slot.SECONDARY)
    if generation is None:
        return {"found": "it is the primary by now, or gone"}
    patience = max(watch.patience_seconds, watch.migration_seconds_left)
    if not watch.until(lambda now: _turned(now, step, seen, generation), patience_seconds=patience):
        way = "on" if step.on else "off"
        raise TransientError(
            f"{step.switch} of {step.secondary} was not {way} after {patience:.0f} s",
            hint=f"it goes on trying, and the stream has {watch.look().covered} meanwhile; "
            f"`holdfast logs {watch.stream} --replica {step.secondary}` tells what keeps it",
        )
    return _measured(store, watch.stream, step.secondary, since=seen.at)


def see_off(watch: Watch, step: AwaitSecondaryEnd) -> Mapping[str, Any]:
    """Ask a secondary to leave and wait until it has."""
    if not watch.is_due(step):
        return {"found": NOT_DUE}
    if watch.world.store.replicas.desire(step.secondary, OFF, slot=Slot.SECONDARY) is None:
        return {"found": "it is the primary by now, or gone"}
    return await_leave(watch.world, step.secondary, slot=Slot.SECONDARY, beat=watch.beat)


def await_takeover(watch: Watch, step: AwaitTakeover) -> Mapping[str, Any]:
    """Wait for the secondary to take over; one that does not makes room for a new primary."""
    supervision = watch.world.config.stream(watch.stream).supervision
    look = watch.look().secondary_look()
    starting = look is not None and look.health is Health.STARTING
    patience = TAKEOVER_SECONDS + 2 * supervision.lease
    patience += supervision.start_within if starting else 0.0
    if watch.until(lambda seen: _decided(seen, step.secondary), patience_seconds=patience):
        primary = watch.look().primary
        return {"primary": None if primary is None else primary.id}
    reason = f"did not take over in {patience:.0f} s"
    replicas = watch.world.store.replicas
    replicas.end(step.secondary, ReplicaState.FAILED, reason, slot=Slot.SECONDARY)
    return {"failed": reason}


def _decided(seen: StreamSeen, secondary: str) -> bool:
    """Whether there is a primary again, or nobody left to become it."""
    look = seen.secondary_look()
    stands_by = look is not None and look.id == secondary and not look.health.failed
    return seen.verdict.health is not Health.MISSING or not stands_by


def _turned(now: StreamSeen, step: TurnSwitch, before: StreamSeen, generation: int) -> bool:
    """Whether the switch has followed, or something else has to be done first.

    What the secondary said before it had seen the wish, which is of this generation, is no answer.
    """
    row, look = now.secondary, now.secondary_look()
    if row is None or look is None or look.id != step.secondary or look.health.failed:
        return True
    moved_on = now.tier is not before.tier or now.verdict.health is not Health.HEALTHY
    faulty = now.migration is not None and now.migration.fault is not None
    handed_over = isinstance(next_step(now.observed()), HandOver)
    resting = look.paused and step.switch in (Switch.PROCESS, Switch.SEND)
    followed = (step.switch in look.observed.on()) is step.on
    overtaken = moved_on or faulty or handed_over or resting
    return overtaken or (followed and row.observed_generation >= generation)


def _measured(
    store: ControlStore, stream: str, replica: str, *, since: float
) -> Mapping[str, float]:
    """What the replica itself measured of the turn."""
    return {
        name: sample.value
        for name, sample in store.samples.latest(stream, replica=replica).items()
        if sample.at >= since and name.startswith(("t_", "sync_"))
    }
