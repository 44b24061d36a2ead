"""The review of tiers: what each stream should have now, by the recovery model, the costs and the controller.

Everything is read in a few queries for all streams and decided in a few array operations; the record of
what led to it is made for those that somebody asks about. Nothing is written here:
`orchestration.minding` keeps the changes of mind and has them carried out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from configs.controlling import Bounds, Controller
from configs.stream import StreamDeclaration
from ft_policies.costs.billing import paid_until
from ft_policies.costs.prices import ALL_COSTS, ASSUMED_SHARES, WEIGHTS, Prices
from ft_policies.errors import PermanentError
from ft_policies.prediction.model import Fit, Histories, Prediction, RecoveryModel
from ft_policies.prediction.steps import TIERS, FloatArray, RecoveryStep
from ft_policies.prediction.thesis import ThesisModel
from ft_policies.tiering.candidates import Judgement, Subject, intervals, judge
from ft_policies.tiering.controller import Choice, ControllerPolicy, Situation, Why, using_paid
from ft_policies.tiering.decision import Decision, StreamFacts, WhatIf, decision
from ft_policies.tiers import Mode, Tier
from resources.control.decisions import DecisionRow
from resources.control.records import DesiredState, Slot, StreamRow
from streaming.measuring import Measured, measure
from streaming.world import World

AHEAD_SECONDS = 60.0  # a new secondary is launched, rehearses and has its state by then
MISSES_COUNT_SECONDS = 24 * 3600.0
REFIT_SECONDS = 600.0
ASSUMED_EVERY_SECONDS = 60.0  # for snapshots that are declared by bytes only
_FITS: dict[tuple[str, str], tuple[object, Fit]] = {}
"""What was fitted last, by control store and stream: histories change seldom, reviews come often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """One stream under review."""

    declared: StreamDeclaration
    row: StreamRow
    last: DecisionRow | None
    """What was thought of it before."""
    measured: Measured
    subject: Subject
    fit: Fit
    by_thesis: Prediction | None
    """Only where the stream wants that estimator."""
    current_interval: int
    since_change: float
    recent_misses: int
    secondary_since: float = nan
    """Since when there is one, where hours are paid once they start."""

    @property
    def known(self) -> Fit | Prediction:
        """What the estimator that decides had to go by."""
        return self.fit if self.by_thesis is None else self.by_thesis


def gather(world: World, rows: Sequence[StreamRow]) -> list[Reviewed]:
    """Read what the store knows of these streams, in the same few queries for any number."""
    if not rows:
        return []
    declared = {row.name: world.project.stream(row.name) for row in rows}
    measured = measure(world.store, list(declared.values()))
    minds = world.store.decisions.latest_of_all()
    offers = {one.prices: one for one in declared.values()}.values()
    billed = any(world.prices(one).started_hours for one in offers)
    secondaries = world.store.replicas.live_since(Slot.SECONDARY) if billed else {}
    store = world.store.url
    return [
        _stream(
            declared[row.name],
            row,
            minds.get(row.name),
            measured[row.name],
            fit=_fitted(store, measured[row.name]),
            secondary_since=secondaries.get(row.name, nan),
        )
        for row in rows
    ]


def _stream(
    declared: StreamDeclaration,
    row: StreamRow,
    last: DecisionRow | None,
    measured: Measured,
    *,
    fit: Fit,
    secondary_since: float,
) -> Reviewed:
    present = _present(declared, row, float(measured.load.epoch_seconds))
    candidates = _candidates(declared.controller, present)
    by_thesis = declared.controller.estimator == "thesis"
    return Reviewed(
        declared=declared,
        row=row,
        last=last,
        measured=measured,
        subject=Subject(
            bounds=fit.bounds,
            load=measured.load,
            ahead=measured.load_in(AHEAD_SECONDS),
            snapshot_every=[one for one, _ in candidates],
            sync_every=[other for _, other in candidates],
            ship_seconds=measured.ship_seconds,
            sync_seconds=measured.sync_seconds,
            primary=measured.primary,
            shares=measured.shares_over(ASSUMED_SHARES),
            new_state_bytes_per_second=measured.new_state_bytes_per_second,
            requests_per_snapshot=measured.requests_per_snapshot,
            requests_per_sync=measured.requests_per_sync,
            stored_bytes=measured.stored_bytes,
        ),
        fit=fit,
        by_thesis=_as_in_the_thesis(declared.controller, measured) if by_thesis else None,
        current_interval=candidates.index(present),
        since_change=measured.at - max(row.changed_at, _paced_at(last, row)),
        recent_misses=_misses(declared, measured),
        secondary_since=secondary_since,
    )


def _paced_at(last: DecisionRow | None, row: StreamRow) -> float:
    """When intervals were moved last, which happens with the decision.

    Another tier is only asked for by it: until the row has that, nothing has changed.
    """
    return last.at if last is not None and last.acted and last.chosen is row.tier else 0.0


def _misses(declared: StreamDeclaration, measured: Measured) -> int:
    """How many recoveries took longer than the objective allows, lately."""
    counts = declared.controller.count_detection
    return sum(
        one.counted(count_detection=counts) > declared.objective.recovery_time
        for one in measured.recoveries
        if one.at >= measured.at - MISSES_COUNT_SECONDS
    )


def _present(
    declared: StreamDeclaration, row: StreamRow, epoch_seconds: float
) -> tuple[float, float]:
    """The intervals that the stream has now: of time and epochs the sooner; for bytes alone, a guess.

    Epochs do not count where the controller moves the time: they may ship sooner than it predicts.
    """
    checkpoint, moved = declared.checkpoint, declared.controller.snapshot_every is not None
    by_time = row.snapshot_every or checkpoint.every
    by_epochs = None if moved else (checkpoint.epochs or 0) * epoch_seconds
    snapshot = min((one for one in (by_time, by_epochs) if one), default=ASSUMED_EVERY_SECONDS)
    return snapshot, row.sync_every or declared.secondary.sync


def _candidates(controller: Controller, present: tuple[float, float]) -> list[tuple[float, float]]:
    """What may be chosen, and what there is, the shortest first."""

    def bounds(given: Bounds | None, now: float) -> tuple[float, float]:
        return (now, now) if given is None else (given.min, given.max)

    snapshot, sync = present
    allowed = intervals(
        bounds(controller.snapshot_every, snapshot), bounds(controller.sync_every, sync)
    )
    return sorted({*allowed, present})


def _as_in_the_thesis(controller: Controller, measured: Measured) -> Prediction:
    since = float(measured.load.rows_per_second) * measured.snapshot_age_seconds
    model = ThesisModel(count_detection=controller.count_detection)
    return model.predict(measured.histories, measured.load, rows_since_snapshot=since)


def _fitted(store: str, measured: Measured) -> Fit:
    """Fit anew only if something was measured since, or forgotten, or declared."""
    key, seen = (store, measured.stream), _ends(measured.histories)
    known = _FITS.get(key)
    if known is None or known[0] != seen:
        known = _FITS[key] = (seen, RecoveryModel().fit(measured.histories))
    return known[1]


def _ends(histories: Histories) -> object:
    """What changes with the histories: steps come at the end and are forgotten from the beginning.

    Snapshots are written all the time, but stand for reading one only until that was measured; what
    they tell then changes slowly.
    """
    steps = [(step, len(all_), all_[0], all_[-1]) for step, all_ in histories.steps.items() if all_]
    read = any(one.cold for one in histories.steps.get(RecoveryStep.READ_SNAPSHOT, ()))
    if read or not histories.writes:
        return steps
    many, newest = len(histories.writes).bit_length(), histories.writes[-1].at
    return steps, many, int(newest // REFIT_SECONDS)


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


def review(world: World) -> list[Opinion]:
    """What each stream that should run ought to have; those that are pinned are judged all the same."""
    rows = [
        row
        for row in world.store.streams.all()
        if row.desired is DesiredState.RUNNING and row.name in world.project.streams
    ]
    groups: dict[object, list[Reviewed]] = {}
    for one in gather(world, rows):
        groups.setdefault(_judged_by(one), []).append(one)

    found: list[Opinion] = []
    for alike in groups.values():
        found += decide(alike, world.prices(alike[0].declared)).opinions()
    return sorted(found, key=lambda one: one.of.row.name)


def decide_now(world: World, stream: str) -> Decision:
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


def what_if(world: World, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
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


def _one(world: World, stream: str) -> Reviewed:
    world.project.stream(stream)  # tells about a name that nobody declared
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
