"""The review of tiers: what each stream should have now, by the recovery model, the costs and the controller.

Everything is read in a few queries for all streams and decided in a few array operations; the record of
what led to it is made for those that somebody asks about. Nothing is written here:
`orchestration.minding` keeps the changes of mind and has them carried out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from configs.controlling import Controller
from ft_policies.billing import paid_until, using_paid
from ft_policies.controller import Choice, ControllerPolicy, Situation, Why
from ft_policies.costs import ALL_COSTS, WEIGHTS, Prices
from ft_policies.decisions import Decision, StreamFacts, decision
from ft_policies.errors import PermanentError
from ft_policies.judging import Judgement, judge
from ft_policies.prediction import RecoveryModel
from ft_policies.recovery_model import TIERS, FloatArray
from ft_policies.tiers import Mode, Tier
from ft_policies.what_if import WhatIf
from orchestration.reviewed import Reviewed, gather
from resources.control.records import DesiredState
from resources.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What one stream ought to have."""

    of: Reviewed
    tier: Tier
    snapshot_every: float
    sync_every: float
    why: Why
    acts: bool
    """Whether that is something else than it has, and to be carried out."""
    together: "Together"
    index: int

    def decision(self) -> Decision:
        """The record of it, with everything that led to it."""
        return self.together.decision(self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Streams that are alike in how they are judged, and what was chosen for them."""

    streams: Sequence[Reviewed]
    prices: Prices
    policy: ControllerPolicy
    judged: Judgement
    situation: Situation
    choice: Choice

    def opinions(self) -> list[Opinion]:
        """What each of them ought to have."""
        judged, situation, choice = self.judged, self.situation, self.choice
        every = np.arange(len(self.streams)), choice.interval
        differs = (choice.tier != situation.current) | (
            choice.interval != situation.current_interval
        )
        columns = zip(
            self.streams,
            choice.tier.tolist(),
            judged.snapshot_every[every].tolist(),
            judged.sync_every[every].tolist(),
            choice.why.tolist(),
            differs.tolist(),
            strict=True,
        )
        return [
            Opinion(
                of=one,
                tier=TIERS[tier],
                snapshot_every=snapshot,
                sync_every=sync,
                why=Why(why),
                acts=other and one.declared.controller.mode is Mode.AUTO,
                together=self,
                index=index,
            )
            for index, (one, tier, snapshot, sync, why, other) in enumerate(columns)
        ]

    def decision(self, index: int) -> Decision:
        """The record of one of them."""
        one, judged = self.streams[index], self.judged
        intervals_of_it = slice(len(one.subject.snapshot_every))
        at = one.measured.at
        facts = StreamFacts(
            stream=one.declared.name,
            mode=one.declared.controller.mode,
            guarantee=one.declared.objective.guarantee,
            load=one.measured.load,
            snapshot_every=judged.snapshot_every[index, intervals_of_it],
            sync_every=judged.sync_every[index, intervals_of_it],
            steps=judged.steps[index, intervals_of_it],
            money_per_hour=judged.money_per_hour[index, intervals_of_it],
            currency=self.prices.currency,
            missing=one.known.missing,
            paid_seconds=float(paid_until(one.secondary_since, at)) - at,
        )
        return decision(index, self.situation, self.choice, self.policy, facts, at=at)


def review(world: Project) -> list[Opinion]:
    """What each stream that should run ought to have; those that are pinned are judged all the same."""
    rows = [
        row
        for row in world.store.streams.all()
        if row.desired is DesiredState.RUNNING and row.name in world.config.streams
    ]
    groups: dict[object, list[Reviewed]] = {}
    for one in gather(world, rows):
        groups.setdefault(_judged_by(one), []).append(one)

    found: list[Opinion] = []
    for alike in groups.values():
        found += decide(alike, world.prices(alike[0].declared)).opinions()
    return sorted(found, key=lambda one: one.of.row.name)


def decide_now(world: Project, stream: str) -> Decision:
    """What one stream ought to have now, whether it should run or not."""
    one = _one(world, stream)
    return decide([one], world.prices(one.declared)).decision(0)


def decide(streams: Sequence[Reviewed], prices: Prices) -> Together:
    """Judge streams that are judged alike, and choose for them."""
    policy = streams[0].declared.controller.policy()
    judged = _judged(streams, prices)
    situation = _situation(streams, judged)
    choice = policy.choose(situation)
    if prices.started_hours:
        now = streams[0].measured.at
        choice = using_paid(choice, situation, policy, started_at=_since(streams), now=now)
    return Together(
        streams=streams,
        prices=prices,
        policy=policy,
        judged=judged,
        situation=situation,
        choice=choice,
    )


def what_if(world: Project, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
    """What one stream would come down to from its fastest tier with these objectives, in time."""
    one = _one(world, stream)
    prices, section = world.prices(one.declared), one.declared.controller
    judged = _judged([one], prices)
    normalised = judge([one.subject], _model(section), prices, ALL_COSTS).cost[0]
    policy = replace(section.policy(), cool_down_seconds=0.0, dwell_seconds=0.0)
    now = _situation([one], judged)
    fastest = replace(now, current=now.allowed.argmax(axis=1), recent_misses=np.zeros(1))
    found = []
    for objective in objectives:
        choice = policy.choose(replace(fastest, objective=np.array([objective])))
        at = int(choice.interval[0]), int(choice.tier[0])
        seconds = max(float(judged.predicted[0][at]), float(judged.ahead[0][at]))
        found.append(
            WhatIf(
                objective_seconds=objective,
                tier=TIERS[at[1]],
                seconds=seconds,
                money_per_hour=float(judged.money_per_hour[0][at]),
                weighted=float(normalised[at]),
                holds=seconds <= objective,
                snapshot_every=float(judged.snapshot_every[0][at[0]]),
                sync_every=float(judged.sync_every[0][at[0]]),
            )
        )
    return found


def _one(world: Project, stream: str) -> Reviewed:
    world.config.stream(stream)  # tells about a name that nobody declared
    row = world.store.streams.get(stream)
    if row is None:
        raise PermanentError(
            f"{stream} was never started, so nothing is known of it",
            hint=f"run `holdfast start {stream}`",
        )
    return gather(world, [row])[0]


def _judged_by(one: Reviewed) -> tuple[object, ...]:
    """Streams of which this is the same can be judged together."""
    section = one.declared.controller
    how = section.weigh_by, section.estimator, section.count_detection
    return one.declared.prices, *how, section.policy()


def _judged(streams: Sequence[Reviewed], prices: Prices) -> Judgement:
    section = streams[0].declared.controller
    subjects = [one.subject for one in streams]
    judged = judge(subjects, _model(section), prices, WEIGHTS.get(section.weigh_by))
    found = [one.by_thesis for one in streams if one.by_thesis is not None]
    if not found:
        return judged
    counts = section.count_detection
    steps = np.stack([one.steps.of_tiers(count_detection=counts) for one in found])
    seconds = np.stack([one.seconds for one in found])[:, np.newaxis]
    by_thesis = np.broadcast_to(seconds, judged.predicted.shape)
    steps = np.broadcast_to(steps[:, np.newaxis], judged.steps.shape)
    return replace(judged, predicted=by_thesis, ahead=by_thesis, steps=steps)


def _model(section: Controller) -> RecoveryModel:
    return RecoveryModel(count_detection=section.count_detection)


def _situation(streams: Sequence[Reviewed], judged: Judgement) -> Situation:
    return Situation(
        predicted=judged.predicted,
        predicted_ahead=judged.ahead,
        cost=judged.cost,
        objective=np.array([one.declared.objective.recovery_time for one in streams]),
        allowed=np.array(
            [[one.declared.objection_to(tier) is None for tier in TIERS] for one in streams]
        ),
        enough=np.array([one.known.enough for one in streams]),
        current=np.array([TIERS.index(one.row.tier) for one in streams]),
        current_interval=np.array([one.current_interval for one in streams]),
        since_change=np.array([one.since_change for one in streams]),
        recent_misses=np.array([one.recent_misses for one in streams]),
    )


def _since(streams: Sequence[Reviewed]) -> FloatArray:
    """Since when each has a secondary that a decision may release: only in mode `auto` it may."""
    return np.array(
        [
            one.secondary_since if one.declared.controller.mode is Mode.AUTO else np.nan
            for one in streams
        ]
    )
