"""The outages of streams: how long each was without a new commit, as its recovery incidents have it.

A recovery may take several drivers: one that died before it committed anything has recovered nothing, and its
incident passes the beginning of the outage on. The steps of single drivers (`recovery_history`) do not show that.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """From the last sign of life until the first new commit; `at` is when its incident was closed."""

    seconds: float
    detect_seconds: float
    at: float

    def count_seconds(self, count_detection: bool) -> float:  # noqa: FBT001
        """The seconds, with or without the time until the failure was detected."""
        return self.seconds if count_detection else max(self.seconds - self.detect_seconds, 0.0)


def read_outages(store: ControlStore, *, since_at: float) -> Mapping[str, Sequence[Outage]]:
    """The outages of all streams whose incidents were closed since then, by stream, oldest first."""
    outages: dict[str, list[Outage]] = defaultdict(list)
    for incident in reversed(store.incidents.closed_since(since_at)):
        seconds = incident.detail.get(SampleName.RECOVERY_SECONDS)
        if (
            incident.kind is not IncidentKind.RECOVERY
            or seconds is None
            or incident.closed_at is None
        ):
            continue
        detect_seconds = float(incident.detail.get(SampleName.DETECT_SECONDS) or 0.0)
        outages[incident.stream].append(
            Outage(seconds=float(seconds), detect_seconds=detect_seconds, at=incident.closed_at)
        )
    return outages
