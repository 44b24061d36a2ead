"""Records new decisions in the control store, applies chosen intervals, and finds the switches that are due.

A review comes to the same result every few seconds; only a different result is recorded, with its reasons.
"""

from dataclasses import dataclass

from holdfast.configs.declarations.controller import Controller
from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiering.candidates import Candidates
from holdfast.ft_policies.tiering.controller import Choice, Why
from holdfast.ft_policies.tiering.decision import Decision
from holdfast.ft_policies.tiers import Mode
from holdfast.observation.review import Reviewer
from holdfast.resources.control_store.records import DecisionRow, Intervals
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.project import Project

BUCKET_SECONDS = 60.0
UNSETTLED = frozenset({Why.TOO_LITTLE_DATA, Why.CANNOT_HOLD})
"""The same tier for one of these rules is another decision; between all other rules it is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSwitch:
    """A stream that should have another tier; requests with the same key give one run."""

    decision: DecisionRow
    run_key: str


def due_switches(project: Project, reviewer: Reviewer) -> list[DueSwitch]:
    """Review all streams, record new decisions, apply chosen intervals, and return the switches due."""
    last, due = project.store.decisions.latest_of_all(), []
    for candidates, choice in reviewer.review(project, last):
        changes = choice.changes(candidates).tolist()
        for index, inputs in enumerate(candidates.streams):
            section = project.config.stream(inputs.stream).controller
            recorded = last.get(inputs.stream)
            if recorded is None or is_new_decision(candidates, choice, index, section, recorded):
                recorded = record_decision(project.store, Decision.of(candidates, choice, index))
            if not changes[index] or inputs.mode is not Mode.AUTO:
                continue
            if project.store.migrations.open(inputs.stream) is not None:
                continue  # the migration has the secondary that a switch would need
            chosen = _chosen_intervals(candidates, choice, index, section)
            _apply_intervals(project.store, inputs.stream, chosen)
            if choice.tier[index] != candidates.current[index] and _has_run(project, inputs.stream):
                due.append(_due_switch(recorded, at=candidates.at))
    return sorted(due, key=lambda switch: switch.decision.stream)


def _has_run(project: Project, stream: str) -> bool:
    """Whether the stream has committed an epoch: while its first driver starts or fails, no tier helps."""
    return project.store.ledger.last(stream) is not None


def _due_switch(decision: DecisionRow, *, at: float) -> DueSwitch:
    bucket = int((at - decision.at) // BUCKET_SECONDS)  # a request may be lost
    return DueSwitch(decision=decision, run_key=f"{decision.stream}-{decision.id}-{bucket}")


def record_decision(store: ControlStore, decision: Decision) -> DecisionRow:
    return store.decisions.write(
        DecisionRow(
            stream=decision.stream,
            at=decision.at,
            mode=decision.mode,
            chosen=decision.chosen,
            snapshot_every=decision.snapshot_every,
            sync_every=decision.sync_every,
            reason=decision.reason,
            record=decision.to_json(),
        )
    )


def is_new_decision(
    candidates: Candidates, choice: Choice, index: int, controller: Controller, last: DecisionRow
) -> bool:
    """Whether the choice for a stream differs from its last decision; numbers alone always differ.

    Intervals count only where the controller may set them. A record without a rule was written by
    another version, and is replaced.
    """
    why, before = Why(int(choice.why[index])), _why_of(last)
    same_why = before is why or not (before is None or UNSETTLED & {why, before})
    chosen = _chosen_intervals(candidates, choice, index, controller)
    return not (
        same_why
        and TIERS[choice.tier[index]] is last.chosen
        and controller.mode is last.mode
        and chosen.snapshot_every in (None, last.snapshot_every)
        and chosen.sync_every in (None, last.sync_every)
    )


def _why_of(decision: DecisionRow) -> Why | None:
    """The deciding rule; `None` if the record was written by another version."""
    return Why.__members__.get(decision.why.upper())


def _chosen_intervals(
    candidates: Candidates, choice: Choice, index: int, controller: Controller
) -> Intervals:
    """The chosen intervals; `None` for what the controller may not set."""
    interval = choice.interval[index]
    snapshot = float(candidates.snapshot_every[index, interval])
    sync = float(candidates.sync_every[index, interval])
    return Intervals(
        snapshot_every=None if controller.snapshot_every is None else snapshot,
        sync_every=None if controller.sync_every is None else sync,
    )


def _apply_intervals(store: ControlStore, stream: str, chosen: Intervals) -> None:
    if chosen != store.streams.intervals(stream):
        store.streams.set_intervals(
            stream, snapshot_every=chosen.snapshot_every, sync_every=chosen.sync_every
        )
