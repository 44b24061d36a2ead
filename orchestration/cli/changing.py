"""A change of a stream's replicas while it is under way, for `holdfast status`."""

from dataclasses import dataclass

from assets.changes import Change, recent_changes, under_way
from streaming.observing import StreamSeen
from streaming.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """A step of a change: `intent` while somebody is at it, then `done` or `failed`."""

    step: str
    about: str
    phase: str
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """A change of the replicas that is under way, with the steps that were taken so far."""

    playbook: str
    run: str
    age_seconds: float
    steps: list[StepFacts]


def change_of(world: World, seen: StreamSeen) -> ChangeFacts | None:
    """The change that is under way; a stream that lacks nothing has none, whatever was left open."""
    change = under_way(recent_changes(world.store, seen.name))
    if change is None or seen.needs_nothing:
        return None
    return ChangeFacts(
        playbook=change.playbook,
        run=change.run,
        age_seconds=seen.at - change.began_at,
        steps=_steps(change, seen.at),
    )


def _steps(change: Change, now: float) -> list[StepFacts]:
    return [
        StepFacts(
            step=one.step,
            about=one.about,
            phase=one.phase.value,
            seconds=now - one.at if one is change.doing else one.seconds,
        )
        for one in change.steps
    ]
