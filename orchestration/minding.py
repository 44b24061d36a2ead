"""Changes of mind: kept in the control store, one line each, and those that act carried out.

A review repeats itself every few seconds; what is kept is when it came to another result, and why.
"""

from dataclasses import dataclass

from ft_policies.controller import Why
from ft_policies.decisions import Decision
from ft_policies.tiers import Mode, Tier
from orchestration.reviewing import review
from resources.control.decisions import DecisionRow
from resources.control.store import ControlStore
from streaming.world import World

BUCKET_SECONDS = 60.0
STAYS = frozenset({Why.CHEAPEST, Why.SMALL_SAVING, Why.DWELLING, Why.COOLING_DOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSwitch:
    """A stream that should have another tier; asking twice under one key gives one run."""

    decision: DecisionRow
    run_key: str


def due_switches(world: World) -> list[DueSwitch]:
    """Review all streams, keep what is new, move intervals, and say which tiers have to be switched."""
    known = world.store.decisions.latest_of_all()
    found = []
    for made in review(world):
        last = known.get(made.stream)
        kept = last if last is not None and _is_same(made, last) else keep(world.store, made)
        if made.acts:
            _pace(world, made)
        if made.acts and made.chosen is not made.current:
            waited = int((made.at - kept.at) // BUCKET_SECONDS)  # a request may be lost
            found.append(DueSwitch(decision=kept, run_key=f"{made.stream}-{kept.id}-{waited}"))
    return found


def keep(store: ControlStore, made: Decision, *, run: str = "") -> DecisionRow:
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
            run=run,
        )
    )


def _pace(world: World, made: Decision) -> None:
    """Move the intervals that may be moved."""
    section = world.project.stream(made.stream).controller
    if section.snapshot_every is not None or section.sync_every is not None:
        world.store.streams.pace(
            made.stream,
            snapshot_every=None if section.snapshot_every is None else made.snapshot_every,
            sync_every=None if section.sync_every is None else made.sync_every,
        )


def _is_same(made: Decision, last: DecisionRow) -> bool:
    """Numbers change with every look, and so does why a stream stays; a mind does not."""
    before = Decision.from_json(last.record)
    return _mind(made) == _mind(before)


def _mind(one: Decision) -> tuple[Mode, Tier, float, float, Why]:
    why = Why.CHEAPEST if one.why in STAYS else one.why
    return one.mode, one.chosen, one.snapshot_every, one.sync_every, why
