"""The streams under review: what was measured of each, and what it may have."""

from collections.abc import Sequence
from dataclasses import dataclass

from configs.controlling import Bounds, Controller
from configs.stream import StreamDeclaration
from ft_policies.costs import ASSUMED_SHARES
from ft_policies.judging import Subject, intervals
from ft_policies.prediction import Fit, Histories, RecoveryModel
from resources.control.decisions import DecisionRow
from resources.control.records import StreamRow
from streaming.measuring import Measured, measure
from streaming.world import World

AHEAD_SECONDS = 60.0  # a new secondary is launched, rehearses and has its state by then
MISSES_COUNT_SECONDS = 24 * 3600.0
ASSUMED_EVERY_SECONDS = 60.0  # for snapshots that are declared by bytes only
_FITS: dict[tuple[str, str], tuple[object, Fit]] = {}
"""What was fitted last for each stream: histories change seldom, reviews come every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """One stream under review."""

    declared: StreamDeclaration
    row: StreamRow
    measured: Measured
    subject: Subject
    fit: Fit
    current_interval: int
    since_change: float
    recent_misses: int


def gather(world: World, rows: Sequence[StreamRow]) -> list[Reviewed]:
    """Read what the store knows of these streams, in the same few queries for any number."""
    if not rows:
        return []
    declared = {row.name: world.project.stream(row.name) for row in rows}
    measured = measure(world.store, list(declared.values()))
    minds = world.store.decisions.latest_of_all()
    return [
        _stream(
            declared[row.name],
            row,
            measured[row.name],
            changed_at=max(row.changed_at, _acted_at(minds.get(row.name))),
        )
        for row in rows
    ]


def _acted_at(mind: DecisionRow | None) -> float:
    return mind.at if mind is not None and mind.record["acts"] else 0.0


def _stream(
    declared: StreamDeclaration, row: StreamRow, measured: Measured, *, changed_at: float
) -> Reviewed:
    present = _present(declared, row, float(measured.load.epoch_seconds))
    candidates = _candidates(declared.controller, present)
    fit = _fitted(row.name, declared.controller.estimator, measured.histories)
    late = [
        one
        for one in measured.recoveries
        if one.at >= measured.at - MISSES_COUNT_SECONDS
        and one.seconds > declared.objective.recovery_time
    ]
    return Reviewed(
        declared=declared,
        row=row,
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
        current_interval=candidates.index(present),
        since_change=measured.at - changed_at,
        recent_misses=len(late),
    )


def _present(
    declared: StreamDeclaration, row: StreamRow, epoch_seconds: float
) -> tuple[float, float]:
    """The intervals that the stream has now; one that is declared in epochs or bytes is about this."""
    checkpoint = declared.checkpoint
    every = checkpoint.every or (checkpoint.epochs or 0) * epoch_seconds or ASSUMED_EVERY_SECONDS
    return row.snapshot_every or every, row.sync_every or declared.secondary.sync


def _candidates(controller: Controller, present: tuple[float, float]) -> list[tuple[float, float]]:
    """What may be chosen, and what there is, the shortest first."""

    def bounds(given: Bounds | None, now: float) -> tuple[float, float]:
        return (now, now) if given is None else (given.min, given.max)

    snapshot, sync = present
    allowed = intervals(
        bounds(controller.snapshot_every, snapshot), bounds(controller.sync_every, sync)
    )
    return sorted({*allowed, present})


def _fitted(stream: str, estimator: str, histories: Histories) -> Fit:
    """Fit anew only if something was measured since."""
    seen = tuple((step, len(all_), all_[-1].at) for step, all_ in histories.steps.items() if all_)
    known = _FITS.get((stream, estimator))
    if known is None or known[0] != seen:
        known = _FITS[stream, estimator] = (seen, RecoveryModel().fit(histories))
    return known[1]
