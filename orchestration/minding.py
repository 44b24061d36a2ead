"""Changes of mind: kept in the control store, one line each, and those that act carried out.

A review repeats itself every few seconds; what is kept is when it came to another result, and why.
"""

from dataclasses import dataclass

from ft_policies.tiering.controller import Why
from ft_policies.tiering.decision import Decision
from observation.review import Opinion, review
from resources.control.decisions import DecisionRow
from resources.control.records import Intervals
from resources.control.store import ControlStore
from streaming.world import World

BUCKET_SECONDS = 60.0
UNSETTLED = frozenset({Why.TOO_LITTLE_DATA, Why.CANNOT_HOLD})
"""The same tier for one of these is another mind; for all else, why a stream moves or stays is not."""
_UNSETTLED = {why.name.lower() for why in UNSETTLED}
_SETTLED = {why.name.lower() for why in Why} - _UNSETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSwitch:
    """A stream that should have another tier; asking twice under one key gives one run."""

    decision: DecisionRow
    run_key: str


def due_switches(world: World) -> list[DueSwitch]:
    """Review all streams, keep what is new, move intervals, and say which tiers have to be switched."""
    found = []
    for one in review(world):
        last = one.of.last
        kept = keep(world.store, one.decision()) if last is None or differs(one, last) else last
        if not one.acts or world.store.rollouts.open(one.of.row.name) is not None:
            continue  # a stream that migrates has the secondary that this needs
        _pace(world.store, one)
        if one.tier is not one.of.row.tier:
            waited = int((one.of.measured.at - kept.at) // BUCKET_SECONDS)  # a request may be lost
            found.append(DueSwitch(decision=kept, run_key=f"{kept.stream}-{kept.id}-{waited}"))
    return found


def keep(store: ControlStore, made: Decision) -> DecisionRow:
    """Write a decision down."""
    return store.decisions.write(
        DecisionRow(
            stream=made.stream,
            at=made.at,
            mode=made.mode,
            chosen=made.chosen,
            snapshot_every=made.snapshot_every,
            sync_every=made.sync_every,
            reason=made.reason,
            record=made.to_json(),
        )
    )


def differs(one: Opinion, last: DecisionRow) -> bool:
    """Whether this is another mind than the last: numbers change with every look, a mind does not.

    Intervals that nobody may move are as long as they turn out to be. A record that does not say why
    is one of another version, and is written anew.
    """
    section = one.of.declared.controller
    same_why = one.why.name.lower() == last.why if one.why in UNSETTLED else last.why in _SETTLED
    return not (
        same_why
        and one.tier is last.chosen
        and section.mode is last.mode
        and (section.snapshot_every is None or one.snapshot_every == last.snapshot_every)
        and (section.sync_every is None or one.sync_every == last.sync_every)
    )


def _pace(store: ControlStore, one: Opinion) -> None:
    """Move the intervals that may be moved."""
    section, row = one.of.declared.controller, one.of.row
    wanted = Intervals(
        snapshot_every=None if section.snapshot_every is None else one.snapshot_every,
        sync_every=None if section.sync_every is None else one.sync_every,
    )
    if wanted != Intervals(snapshot_every=row.snapshot_every, sync_every=row.sync_every):
        store.streams.pace(
            row.name, snapshot_every=wanted.snapshot_every, sync_every=wanted.sync_every
        )
