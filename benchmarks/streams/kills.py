"""Kill -9 of a stream's primary: the prediction before it, and the time until the stream was back."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.streams.forecast import PredictionInputs, find_recovery, measure_steps
from benchmarks.streams.measurements import Condition, UnrecoveredError, wait
from benchmarks.streams.project import describe_stream
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import Recovery
from holdfast.observation.status import observe_stream
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledPrimary:
    """One kill: its time, the seconds until the next epoch, the recovery as the stream measured it, and the successor."""

    at: float
    inputs: PredictionInputs
    predicted: Mapping[str, float]
    to_next_epoch: float
    recovery: Recovery
    """From the last sign of life; in `active_replication` the longest pause between two commits."""
    successor: ReplicaRow


def kill_primary(project: Project, stream: str, tier: Tier) -> KilledPrimary:
    """Kill the primary's driver, and wait until its successor commits."""
    store, killed = project.store, observe_stream(project, stream).primary
    assert killed is not None
    assert killed.pid is not None
    steps = measure_steps(project, stream)
    inputs = PredictionInputs.of(project, stream)
    at = store.now()
    os.kill(killed.pid, signal.SIGKILL)
    try:
        to_next_epoch, recovery, successor = _await_recovery(project, stream, killed.id, at=at)
    except TimeoutError as error:
        raise UnrecoveredError(inputs, at=at) from error
    return KilledPrimary(
        at=at,
        inputs=inputs,
        predicted=inputs.predict(steps, tier),
        to_next_epoch=to_next_epoch,
        recovery=recovery,
        successor=successor,
    )


def _await_recovery(
    project: Project, stream: str, killed: str, *, at: float
) -> tuple[float, Recovery, ReplicaRow]:
    """The seconds until the next epoch, the recovery as the stream measured it, and the successor."""
    store = project.store
    last = store.ledger.last(stream)
    assert last is not None
    epoch = last.epoch + 1
    await_condition(
        project, stream, lambda: store.ledger.get(stream, epoch) is not None, f"epoch {epoch}"
    )
    entry = store.ledger.get(stream, epoch)
    assert entry is not None

    def find_successor() -> ReplicaRow | None:
        status = observe_stream(project, stream)
        is_new = status.primary is not None and status.primary.id != killed
        return status.primary if is_new and status.verdict.health.is_running else None

    await_condition(project, stream, lambda: find_successor() is not None, "successor that commits")
    primary = find_successor()
    assert primary is not None
    await_condition(
        project,
        stream,
        lambda: find_recovery(project, stream, since_at=at) is not None,
        "recorded recovery",
    )
    recovery = find_recovery(project, stream, since_at=at)
    assert recovery is not None
    return entry.committed_at - at, recovery, primary


def await_condition(project: Project, stream: str, condition: Condition, what: str) -> None:
    """Wait for a condition; a timeout describes the stream."""
    wait(condition, what, lambda: describe_stream(project, stream))
