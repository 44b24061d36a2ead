"""The review of tiers: what each stream should have now, by the recovery model, the costs and the controller.

    StreamMeasurements -> Candidates -> Choice -> Decision -> DueSwitch

All streams are read in a few queries and chosen for in a few array operations; a `Decision`, the record
with all reasons, is made only where it is stored or shown. The review writes nothing:
`holdfast.orchestration.sensors.tier_review` records new decisions and asks for the switches.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from holdfast.configs.declarations.controller import Bounds, Controller
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.costs.prices import ALL_COSTS, ASSUMED_SHARES, WEIGHTS, Prices
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.prediction.calibration import Score, calibrate, newest_scores
from holdfast.ft_policies.prediction.model import Fit, Prediction
from holdfast.ft_policies.prediction.past import PastPrediction, score_recoveries
from holdfast.ft_policies.prediction.steps import TIERS, RecoveryStep
from holdfast.ft_policies.prediction.thesis import ThesisModel
from holdfast.ft_policies.tiering.candidates import Candidates, StreamInputs, evaluate, intervals
from holdfast.ft_policies.tiering.controller import Choice, keep_paid_secondaries
from holdfast.ft_policies.tiering.decision import Decision, WhatIf, what_if
from holdfast.ft_policies.tiers import Mode
from holdfast.observation.measurements import StreamMeasurements, measure
from holdfast.observation.outages import Outage, read_outages
from holdfast.observation.reports.recoveries import predict_recoveries
from holdfast.resources.control_store.records import DecisionRow, Slot, StreamRow
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.project import Project

log = logging.getLogger(__name__)

AHEAD_SECONDS = 60.0  # a new secondary is launched, rehearses and has its state by then
MISSES_COUNT_SECONDS = 24 * 3600.0
REFIT_SECONDS = 600.0
ASSUMED_EVERY_SECONDS = 60.0  # for snapshots that are declared by bytes only


class Reviewer:
    """Reviews streams; caches the fits of the model, since measurements change less often than it reviews."""

    def __init__(self) -> None:
        self._fits: dict[tuple[str, str], _Fitted] = {}
        """By control store and stream."""

    def review(
        self, project: Project, last: Mapping[str, DecisionRow]
    ) -> list[tuple[Candidates, Choice]]:
        """Choose a tier for each stream that should run, pinned ones included.

        Streams with the same prices, estimator and policy are evaluated together; `last` has the last
        decision about each stream. If that fails for an unexpected reason, each is reviewed alone, so that the
        others still are.
        """
        rows = _running(project)
        try:
            return self._review(project, rows, last)
        except TransientError:
            raise
        except Exception:
            log.exception("the streams cannot be reviewed together")
        reviews: list[tuple[Candidates, Choice]] = []
        for row in rows:
            try:
                reviews += self._review(project, [row], last)
            except TransientError:
                raise
            except Exception:
                log.exception("%s cannot be reviewed", row.name)
        return reviews

    def _review(
        self, project: Project, rows: Sequence[StreamRow], last: Mapping[str, DecisionRow]
    ) -> list[tuple[Candidates, Choice]]:
        groups: dict[object, list[StreamInputs]] = {}
        for inputs in self.gather(project, rows, last):
            key = _group_key(project.config.stream(inputs.stream))
            groups.setdefault(key, []).append(inputs)
        return [_review_group(project, group) for group in groups.values()]

    def decide_now(self, project: Project, stream: str) -> Decision:
        """Decide on one stream now, whether it should run or not."""
        candidates, choice = _review_group(project, [self._gather_one(project, stream)])
        return Decision.of(candidates, choice, 0)

    def what_if(self, project: Project, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
        """Choose a tier for one stream under other objectives, with the cost of each."""
        streams, declared = [self._gather_one(project, stream)], project.config.stream(stream)
        prices, section = project.prices(declared), declared.controller
        candidates = evaluate(streams, section.model(), prices, WEIGHTS.get(section.weigh_by))
        weighted = evaluate(streams, section.model(), prices, ALL_COSTS).cost[0]
        return what_if(candidates, section.policy(), weighted, objectives)

    def gather(
        self, project: Project, rows: Sequence[StreamRow], last: Mapping[str, DecisionRow]
    ) -> list[StreamInputs]:
        """Read the inputs of these streams from the control store, in the same few queries for any number."""
        if not rows:
            return []
        declared = {row.name: project.config.stream(row.name) for row in rows}
        measured = measure(project.store, list(declared.values()))
        price_lists = {stream.prices: stream for stream in declared.values()}.values()
        billed = any(project.prices(stream).started_hours for stream in price_lists)
        secondaries = project.store.replicas.live_since(Slot.SECONDARY) if billed else {}
        changed_at = project.store.tiers.changed_at()
        since_at = project.store.now() - MISSES_COUNT_SECONDS
        outages = read_outages(project.store, since_at=since_at)
        fits = self._fit(project.store, declared, measured)
        return [
            _stream_inputs(
                declared[row.name],
                row,
                last.get(row.name),
                measured[row.name],
                outages=outages.get(row.name, ()),
                changed_at=changed_at.get(row.name, 0.0),
                fit=fits[row.name],
                secondary_since=secondaries.get(row.name, nan),
            )
            for row in rows
        ]

    def _gather_one(self, project: Project, stream: str) -> StreamInputs:
        project.config.stream(stream)  # raises an error that names the declared streams
        row = project.store.streams.get(stream)
        if row is None:
            raise PermanentError(
                f"{stream} has no measurements: it was never started",
                hint=f"run `holdfast start {stream}`",
            )
        return self.gather_with_others(project, row)

    def gather_with_others(self, project: Project, row: StreamRow) -> StreamInputs:
        """Read the inputs of one stream; the recoveries of all that run calibrate its predictions."""
        others = [other for other in _running(project) if other.name != row.name]
        gathered = self.gather(project, [row, *others], project.store.decisions.latest_of_all())
        return gathered[0]

    def _fit(
        self,
        store: ControlStore,
        declared: Mapping[str, StreamDeclaration],
        measured: Mapping[str, StreamMeasurements],
    ) -> dict[str, Fit]:
        """Fit again only if measurements were added, expired, or follow from another declaration."""
        fitted: dict[str, _Fitted] = {}
        for name, of_stream in measured.items():
            key, version = (store.url, name), _version(of_stream)
            last = self._fits.get(key)
            if last is None or last.version != version:
                stream = declared[name]
                basis = stream.controller.model(), stream.supervision.timings()
                past = last.past if last is not None and last.basis == basis else ()
                model = stream.controller.model()
                fit = model.fit(of_stream.step_timings)
                predicted = predict_recoveries(store, stream, of_stream, past)
                recovered = [prediction.recovered for prediction in predicted]
                self._fits[key] = _Fitted(
                    version=version,
                    basis=basis,
                    fit=fit,
                    past=predicted,
                    scores=score_recoveries(recovered, fit.bounds, model, of_stream.load),
                )
            fitted[name] = self._fits[key]
        pooled = newest_scores(score for entry in fitted.values() for score in entry.scores)
        without_own = calibrate((), pooled)
        return {
            name: replace(
                entry.fit,
                calibration=calibrate(
                    entry.scores, [score for score in pooled if score.stream != name]
                )
                if entry.scores
                else without_own,
            )
            for name, entry in fitted.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    """The fit of one stream, its newest recoveries with prediction and score, and what they follow from."""

    version: object
    """Changes with the measurements."""
    basis: object
    """Changes with what is declared of the model and the lease."""
    fit: Fit
    past: Sequence[PastPrediction]
    scores: Sequence[Score]


def _running(project: Project) -> list[StreamRow]:
    """The streams that should run and are declared, without those whose row cannot be read."""
    streams, declared = project.store.streams, project.config.streams
    try:
        return [row for row in streams.all() if row.is_desired and row.name in declared]
    except PermanentError:
        log.exception("the streams cannot be read together")
    rows = (_find_row(project, name) for name in sorted(streams.list_wanted() & declared.keys()))
    return [row for row in rows if row is not None]


def _find_row(project: Project, stream: str) -> StreamRow | None:
    try:
        return project.store.streams.get(stream)
    except PermanentError:
        log.exception("%s cannot be reviewed", stream)
        return None


def choose(
    streams: Sequence[StreamInputs], controller: Controller, prices: Prices
) -> tuple[Candidates, Choice]:
    """Evaluate streams that share a controller and prices, and choose for them."""
    weights = WEIGHTS.get(controller.weigh_by)
    candidates = evaluate(streams, controller.model(), prices, weights)
    choice = controller.policy().choose(candidates)
    if prices.started_hours:
        # Only in mode `auto` a decision releases a secondary.
        since = [inputs.secondary_since if inputs.mode is Mode.AUTO else nan for inputs in streams]
        choice = keep_paid_secondaries(
            choice, candidates, started_at=np.array(since), now=candidates.at
        )
    return candidates, choice


def _review_group(project: Project, streams: Sequence[StreamInputs]) -> tuple[Candidates, Choice]:
    declared = project.config.stream(streams[0].stream)
    return choose(streams, declared.controller, project.prices(declared))


def _group_key(declared: StreamDeclaration) -> tuple[object, ...]:
    section = declared.controller
    return declared.prices, section.weigh_by, section.estimator, section.model(), section.policy()


def _stream_inputs(
    declared: StreamDeclaration,
    row: StreamRow,
    last: DecisionRow | None,
    measured: StreamMeasurements,
    *,
    outages: Sequence[Outage],
    changed_at: float,
    fit: Fit,
    secondary_since: float,
) -> StreamInputs:
    present = _present_intervals(declared, row, float(measured.load.epoch_seconds))
    pairs = _interval_pairs(declared.controller, present)
    return StreamInputs(
        stream=declared.name,
        at=measured.at,
        mode=declared.controller.mode,
        guarantee=declared.objective.guarantee,
        objective_seconds=declared.objective.recovery_time,
        allowed=[declared.objection_to(tier) is None for tier in TIERS],
        current=row.tier,
        current_interval=pairs.index(present),
        since_change=max(
            measured.at - max(row.changed_at, changed_at, _intervals_changed_at(last, row)), 0.0
        ),
        recent_misses=_count_misses(declared, outages),
        secondary_since=secondary_since,
        fit=fit,
        thesis=_predict_by_thesis(declared.controller, measured),
        load=measured.load,
        load_ahead=measured.load_in(AHEAD_SECONDS),
        snapshot_every=[snapshot for snapshot, _ in pairs],
        sync_every=[sync for _, sync in pairs],
        ship_seconds=measured.ship_seconds,
        sync_seconds=measured.sync_seconds,
        primary=measured.primary,
        shares=measured.shares_over(ASSUMED_SHARES),
        new_state_bytes_per_second=measured.new_state_bytes_per_second,
        requests_per_snapshot=measured.requests_per_snapshot,
        requests_per_sync=measured.requests_per_sync,
        stored_bytes=measured.stored_bytes,
    )


def _intervals_changed_at(last: DecisionRow | None, row: StreamRow) -> float:
    """When a decision changed the intervals last.

    Intervals change with the decision, but another tier only later: until the row has it, nothing has
    changed.
    """
    return last.at if last is not None and last.acted and last.chosen is row.tier else 0.0


def _count_misses(declared: StreamDeclaration, outages: Sequence[Outage]) -> int:
    """Count the outages that took longer than the objective."""
    counts = declared.controller.count_detection
    return sum(
        outage.count_seconds(count_detection=counts) > declared.objective.recovery_time
        for outage in outages
    )


def _present_intervals(
    declared: StreamDeclaration, row: StreamRow, epoch_seconds: float
) -> tuple[float, float]:
    """The intervals that the stream has now: the shorter of time and epochs, assumed for bytes alone.

    Epochs do not count where the controller sets the time: they only make snapshots more frequent.
    """
    checkpoint, controlled = declared.checkpoint, declared.controller.snapshot_every is not None
    by_time = row.snapshot_every or checkpoint.every
    by_epochs = None if controlled else (checkpoint.epochs or 0) * epoch_seconds
    declared_seconds = [seconds for seconds in (by_time, by_epochs) if seconds]
    snapshot = min(declared_seconds, default=ASSUMED_EVERY_SECONDS)
    return snapshot, row.sync_every or declared.secondary.sync


def _interval_pairs(
    controller: Controller, present: tuple[float, float]
) -> list[tuple[float, float]]:
    """The pairs that may be chosen and the present one, the shortest first."""

    def bounds(given: Bounds | None, now: float) -> tuple[float, float]:
        return (now, now) if given is None else (given.min, given.max)

    snapshot, sync = present
    allowed = intervals(
        bounds(controller.snapshot_every, snapshot), bounds(controller.sync_every, sync)
    )
    return sorted({*allowed, present})


def _predict_by_thesis(controller: Controller, measured: StreamMeasurements) -> Prediction | None:
    """Predict by the model of the thesis; `None` unless the stream declares that estimator."""
    if controller.estimator != "thesis":
        return None
    rows = float(measured.load.rows_per_second) * measured.snapshot_age_seconds
    model = ThesisModel(count_detection=controller.count_detection)
    return model.predict(measured.step_timings, measured.load, rows_since_snapshot=rows)


def _version(measured: StreamMeasurements) -> object:
    """A value that changes with the timings: new ones are added at the end, old ones expire at the start.

    The times of writing snapshots, of which there are always new ones, matter only until a read was
    measured; and as they vary little, the fit follows them only from time to time.
    """
    timings, recoveries = measured.step_timings, measured.recoveries
    steps = [
        (step, len(observed), observed[0], observed[-1])
        for step, observed in timings.steps.items()
        if observed
    ]
    whole = (len(recoveries), recoveries[-1]) if recoveries else None
    reads = timings.steps.get(RecoveryStep.READ_SNAPSHOT, ())
    if any(read.cold for read in reads) or not timings.writes:
        return steps, whole
    magnitude, newest = len(timings.writes).bit_length(), timings.writes[-1].at
    return steps, whole, magnitude, int(newest // REFIT_SECONDS)
