"""The outcome of a drill: the observed recovery time beside the prediction and the objective."""

from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from holdfast.ft_policies import quantities
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.measurements import measure
from holdfast.observation.recovery_history import Recovery
from holdfast.orchestration.incidents import open_recovery
from holdfast.orchestration.playbooks.base import StepResult
from holdfast.orchestration.playbooks.drill.journal import OpenDrill
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.control_store.tables.playbooks.incidents import is_claimed
from holdfast.resources.project import Project

MEASURED_SECONDS = 20.0  # until what a replica has measured is in the control store


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOutcome(StepResult):
    """The figures of a drill; `observed_seconds` is `None` if the stream was stopped before it was back.

    After a cut it is the longest time without a committed epoch, and `healed_seconds` the time until a
    snapshot was shipped again.
    """

    fault: Fault
    primary: str
    tier: Tier
    objective_seconds: float
    predicted_seconds: float | None
    observed_seconds: float | None
    detect_seconds: float | None = None
    healed_seconds: float | None = None

    @property
    def held(self) -> bool:
        """Whether the stream was back within its objective."""
        observed = self.observed_seconds
        return observed is not None and observed <= self.objective_seconds

    @property
    def sentence(self) -> str:
        if self.observed_seconds is None:
            return f"{self.fault} in {self.tier}: the stream was stopped before it was back"
        word = "held" if self.held else "missed"
        predicted = (
            "unknown"
            if self.predicted_seconds is None
            else quantities.seconds(self.predicted_seconds)
        )
        return (
            f"{self.fault} in {self.tier}: back after {quantities.seconds(self.observed_seconds)}, "
            f"predicted {predicted}, objective {self.objective_seconds:g} s {word}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The figures, including unknown ones: the report lists them."""
        return {**asdict(self), "held": self.held, "sentence": self.sentence}


def outcome_of(waiter: StreamWaiter, drill: OpenDrill) -> DrillOutcome:
    """Compute the outcome of a drill whose stream is back."""
    outcome = DrillOutcome(
        fault=drill.fault,
        primary=drill.primary,
        tier=drill.tier,
        objective_seconds=waiter.project.config.stream(waiter.stream).objective.recovery_time,
        predicted_seconds=drill.predicted_seconds,
        observed_seconds=None,
    )
    if not waiter.observe().wanted:
        return outcome
    if drill.fault is Fault.CUT_OFF:
        return _after_a_cut(waiter.project, waiter.stream, drill, outcome)
    recovery = _await_measurement(waiter, since_at=drill.at)
    detect = recovery.detect_seconds
    return replace(outcome, observed_seconds=recovery.seconds, detect_seconds=detect)


def close_incident(
    project: Project, stream: str, outcome: DrillOutcome, *, since_at: float
) -> None:
    """Close the incident that the drill caused, unless a run holds its claim: then that run closes it."""
    incident = open_recovery(project, stream)
    if incident is None or incident.opened_at < since_at:
        return
    if not is_claimed(incident, at=project.store.now()):
        project.store.incidents.close(incident.id, f"a drill: {outcome.sentence}")


def _await_measurement(waiter: StreamWaiter, *, since_at: float) -> Recovery:
    """Wait for the recovery as the replicas measured it; they report just after the stream has caught up."""
    recoveries: list[Recovery] = []

    def is_reported() -> bool:
        measured = measure(waiter.project.store, [waiter.project.config.stream(waiter.stream)])
        recoveries[:] = [row for row in measured[waiter.stream].recoveries if row.at >= since_at]
        return bool(recoveries)

    if not waiter.wait_until(lambda _: is_reported(), patience_seconds=MEASURED_SECONDS):
        raise TransientError(
            f"the recovery time of {waiter.stream} is unknown: no replica has reported it",
            hint="run the drill again: it continues from here",
        )
    return recoveries[0]


def _after_a_cut(
    project: Project, stream: str, drill: OpenDrill, outcome: DrillOutcome
) -> DrillOutcome:
    """A cut should not affect the stream: the outcome is the longest time without a commit."""
    last, newest = project.store.ledger.last(stream), project.store.snapshots.newest(stream)
    entries = (
        [] if last is None else project.store.ledger.between(stream, drill.fault_epoch, last.epoch)
    )
    gaps = [later.committed_at - earlier.committed_at for earlier, later in pairwise(entries)]
    healed = (
        None if newest is None else (newest.created_at or drill.blocked_until) - drill.blocked_until
    )
    return replace(
        outcome,
        predicted_seconds=None,
        observed_seconds=max(gaps, default=0.0),
        healed_seconds=healed,
    )
