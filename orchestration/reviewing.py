"""The review of tiers: what each stream should have now, by the recovery model, the costs and the controller.

Everything is read in a few queries for all streams and decided in a few array operations. Nothing is
written here: `orchestration.minding` keeps the changes of mind and has them carried out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from ft_policies.billing import kept, paid_until
from ft_policies.controller import Choice, ControllerPolicy, Situation
from ft_policies.costs import ALL_COSTS, EC2, Weights
from ft_policies.decisions import Decision, StreamFacts, decision
from ft_policies.errors import PermanentError
from ft_policies.judging import Judgement, judge
from ft_policies.prediction import RecoveryModel
from ft_policies.recovery_model import TIERS, FloatArray
from ft_policies.thesis_model import ThesisModel
from ft_policies.tiers import Mode, Tier
from orchestration.reviewed import Reviewed, gather
from resources.control.records import DesiredState, Slot
from streaming.world import World

AT_ONCE = ControllerPolicy(
    cool_down_seconds=0.0, dwell_seconds=0.0, min_relative_saving=0.0, margin_per_miss=0.0
)
_WEIGHTS: Mapping[str, Weights | None] = {"money": None, "all_costs": ALL_COSTS, "ec2": EC2}


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What a stream would have with another objective."""

    objective_seconds: float
    tier: Tier
    seconds: float
    money_per_hour: float
    weighted: float
    holds: bool
    snapshot_every: float
    sync_every: float


def review(world: World) -> list[Decision]:
    """What each stream that should run ought to have; those that are pinned are judged all the same."""
    rows = [
        row
        for row in world.store.streams.all()
        if row.desired is DesiredState.RUNNING and row.name in world.project.streams
    ]
    streams = gather(world, rows)

    found: list[Decision] = []
    for _, group in groupby(sorted(streams, key=_alike), key=_alike):
        found += _decided(world, list(group))
    return sorted(found, key=lambda one: one.stream)


def decide_now(world: World, stream: str) -> Decision:
    """What one stream ought to have now, whether it should run or not."""
    return _decided(world, [_one(world, stream)])[0]


def what_if(world: World, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
    """What one stream would have with these objectives, if it could change at once."""
    one = _one(world, stream)
    judged = _judged(world, [one])
    normalised = judge([one.subject], _model(one), world.prices(one.declared), ALL_COSTS).cost[0]
    found = []
    for objective in objectives:
        situation = replace(_situation([one], judged), objective=np.array([objective]))
        choice = AT_ONCE.choose(situation)
        at = int(choice.interval[0]), int(choice.tier[0])
        seconds = max(float(judged.predicted[0][at]), float(judged.ahead[0][at]))
        found.append(
            WhatIf(
                objective_seconds=objective,
                tier=TIERS[at[1]],
                seconds=seconds,
                money_per_hour=float(judged.money_per_hour[0][at]),
                weighted=float(normalised[at]),
                holds=one.fit.enough and seconds <= objective,
                snapshot_every=float(judged.snapshot_every[0][at[0]]),
                sync_every=float(judged.sync_every[0][at[0]]),
            )
        )
    return found


def _one(world: World, stream: str) -> Reviewed:
    world.project.stream(stream)  # tells about a name that nobody declared
    row = world.store.streams.get(stream)
    if row is None:
        raise PermanentError(
            f"{stream} was never started, so nothing is known of it",
            hint=f"run `holdfast start {stream}`",
        )
    return gather(world, [row])[0]


def _alike(one: Reviewed) -> tuple[str, str, str, bool]:
    """Streams that can be judged together."""
    section = one.declared.controller
    return one.declared.prices, section.weigh_by, section.estimator, section.count_detection


def _judged(world: World, streams: Sequence[Reviewed]) -> Judgement:
    first = streams[0]
    weights = _WEIGHTS[first.declared.controller.weigh_by]
    subjects = [one.subject for one in streams]
    judged = judge(subjects, _model(first), world.prices(first.declared), weights)
    if first.declared.controller.estimator == "quantile":
        return judged
    seconds = np.stack([_as_in_the_thesis(one) for one in streams])[:, np.newaxis]
    by_thesis = np.broadcast_to(seconds, judged.predicted.shape)
    return replace(judged, predicted=by_thesis, ahead=by_thesis)


def _model(one: Reviewed) -> RecoveryModel:
    return RecoveryModel(count_detection=one.declared.controller.count_detection)


def _as_in_the_thesis(one: Reviewed) -> FloatArray:
    measured, load = one.measured, one.measured.load
    model = ThesisModel(count_detection=one.declared.controller.count_detection)
    since = float(load.rows_per_second) * measured.snapshot_age_seconds
    return model.predict(measured.histories, load, rows_since_snapshot=since).seconds


def _situation(streams: Sequence[Reviewed], judged: Judgement) -> Situation:
    return Situation(
        predicted=judged.predicted,
        predicted_ahead=judged.ahead,
        cost=judged.cost,
        objective=np.array([one.declared.objective.recovery_time for one in streams]),
        allowed=np.array(
            [[one.declared.objection_to(tier) is None for tier in TIERS] for one in streams]
        ),
        enough=np.array([one.fit.enough for one in streams]),
        current=np.array([TIERS.index(one.row.tier) for one in streams]),
        current_interval=np.array([one.current_interval for one in streams]),
        since_change=np.array([one.since_change for one in streams]),
        recent_misses=np.array([one.recent_misses for one in streams]),
    )


def _decided(world: World, streams: Sequence[Reviewed]) -> list[Decision]:
    judged = _judged(world, streams)
    situation = _situation(streams, judged)
    choices: dict[ControllerPolicy, Choice] = {}
    found = []
    for index, one in enumerate(streams):
        policy = one.declared.controller.policy()
        if policy not in choices:
            choices[policy] = policy.choose(situation)
        intervals_of_it = slice(len(one.subject.snapshot_every))
        facts = StreamFacts(
            stream=one.declared.name,
            mode=one.declared.controller.mode,
            guarantee=one.declared.objective.guarantee,
            load=one.measured.load,
            snapshot_every=judged.snapshot_every[index, intervals_of_it],
            sync_every=judged.sync_every[index, intervals_of_it],
            steps=judged.steps[index, intervals_of_it],
            money_per_hour=judged.money_per_hour[index, intervals_of_it],
            currency=world.prices(one.declared).currency,
            missing=one.fit.missing,
        )
        made = decision(index, situation, choices[policy], policy, facts, at=one.measured.at)
        found.append(_paid_for(world, one, situation, index, made))
    return found


def _paid_for(
    world: World, one: Reviewed, situation: Situation, index: int, made: Decision
) -> Decision:
    """Where hours are paid once they start, a secondary is kept and used to the end of its hour."""
    if not world.prices(one.declared).started_hours or made.mode is not Mode.AUTO:
        return made
    secondary = world.store.replicas.live(one.declared.name, Slot.SECONDARY)
    if secondary is None:
        return made
    wanted = np.array([TIERS.index(made.chosen)])
    started_at = np.array([secondary.registered_at])
    allowed = situation.allowed[index : index + 1]
    [tier] = kept(wanted, started_at=started_at, now=made.at, allowed=allowed)
    if TIERS[tier] is made.chosen:
        return made
    left = (float(paid_until(secondary.registered_at, made.at)) - made.at) / 60
    why = f"the secondary is paid for {left:.0f} min more, so {TIERS[tier]} costs nothing; then: "
    chosen = TIERS[tier]
    return replace(
        made, chosen=chosen, acts=chosen is not made.current, reason=f"{why}{made.reason}"
    )
