"""A change of a stream's replicas while it is under way, for `holdfast status`."""

from dataclasses import dataclass, replace

from holdfast.ft_policies.playbooks.base import step_fields
from holdfast.ft_policies.playbooks.recover.decide import plan_recovery
from holdfast.observation.playbook_runs import Change, about, recent_changes, under_way
from holdfast.observation.status import StreamSeen
from holdfast.resources.project import Project

PLANNED = "planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """A step of a change: `planned`, then `intent` while somebody is at it, `done` or `failed`."""

    step: str
    about: str
    phase: str
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """A change of the replicas that is under way: the steps taken so far, then those to come."""

    playbook: str
    run: str
    age_seconds: float
    steps: list[StepFacts]


def change_of(world: Project, seen: StreamSeen) -> ChangeFacts | None:
    """The change that is under way; a stream that lacks nothing has none, whatever was left open."""
    change = under_way(recent_changes(world.store, seen.name), at=seen.at)
    if change is None or seen.is_settled:
        return None
    return ChangeFacts(
        playbook=change.playbook,
        run=change.run,
        age_seconds=seen.at - change.began_at,
        steps=[*_steps(change, seen.at), *_to_come(change, seen)],
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


def _to_come(change: Change, seen: StreamSeen) -> list[StepFacts]:
    """The steps that are plan_recovery, each taken to succeed, after the one that is under way."""
    steps = [
        StepFacts(step=step.name, about=about(step_fields(step)), phase=PLANNED, seconds=None)
        for step in plan_recovery(replace(seen.observed(), secondary_failures_in_a_row=0))
    ]
    doing = change.doing
    if doing is not None and steps and (doing.step, doing.about) == (steps[0].step, steps[0].about):
        return steps[1:]
    return steps
