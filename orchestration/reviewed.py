"""The streams under review: what was measured of each, and what it may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from configs.controlling import Bounds, Controller
from configs.stream import StreamDeclaration
from ft_policies.costs import ASSUMED_SHARES
from ft_policies.judging import Subject, intervals
from ft_policies.prediction import Fit, Histories, Prediction, RecoveryModel
from ft_policies.recovery_model import RecoveryStep
from ft_policies.thesis_model import ThesisModel
from resources.control.decisions import DecisionRow
from resources.control.records import Slot, StreamRow
from resources.project import Project
from streaming.measuring import Measured, measure

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


def gather(world: Project, rows: Sequence[StreamRow]) -> list[Reviewed]:
    """Read what the store knows of these streams, in the same few queries for any number."""
    if not rows:
        return []
    declared = {row.name: world.config.stream(row.name) for row in rows}
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
