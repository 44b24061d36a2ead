"""Samples of a live stream, one a second: load, state, tier, and CPU seconds spent."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import psutil

from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.status import observe_stream
from holdfast.resources.control_store.records import Slot
from holdfast.resources.project import Project

LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Moment:
    """One look; CPU seconds are all since the monitor began."""

    at: float
    rows_per_second: float
    state_megabytes: float
    tier: Tier
    """The tier that the live replicas cover."""
    primary_cpu: float
    secondary_cpu: float


@dataclass
class Tally:
    """CPU seconds of replicas with all that they start, by the slot in which they were spent."""

    spent: dict[Slot, float] = field(default_factory=lambda: dict.fromkeys(Slot, 0.0))
    _seen: dict[tuple[int, float], float] = field(default_factory=dict)

    def look(self, pid: int, slot: Slot) -> None:
        """Count what this replica has spent since the last look; a new process counts from its start."""
        try:
            root = psutil.Process(pid)
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                key, used = (process.pid, process.create_time()), sum(process.cpu_times()[:2])
            except psutil.NoSuchProcess:
                continue
            self.spent[slot] += used - self._seen.get(key, 0.0)
            self._seen[key] = used


class StreamMonitor:
    """Looks at a stream whose load began at a time; what was spent before the monitor does not count."""

    def __init__(
        self, project: Project, stream: str, began_at: float, rate_at: Callable[[float], float]
    ) -> None:
        self._project = project
        self._stream = stream
        self._began_at = began_at
        self._rate_at = rate_at
        self._tally = Tally()
        self.moments: list[Moment] = []
        self._update_tally()
        self._tally.spent = dict.fromkeys(Slot, 0.0)

    def now(self) -> float:
        """Seconds since the load began."""
        return self._project.store.now() - self._began_at

    def look(self) -> None:
        """Write one moment down."""
        store, status = self._project.store, observe_stream(self._project, self._stream)
        self._update_tally()
        newest = store.snapshots.newest(self._stream)
        at = self.now()
        self.moments.append(
            Moment(
                at=at,
                rows_per_second=self._rate_at(at),
                state_megabytes=0.0 if newest is None else newest.total_bytes / 1e6,
                tier=status.covered,
                primary_cpu=self._tally.spent[Slot.PRIMARY],
                secondary_cpu=self._tally.spent[Slot.SECONDARY],
            )
        )

    def _update_tally(self) -> None:
        for row in self._project.store.replicas.of(self._stream):
            if row.pid is not None:
                self._tally.look(row.pid, row.slot)


@contextmanager
def run_monitor(monitor: StreamMonitor) -> Iterator[None]:
    """Look every second beside what else is done."""
    leave = threading.Event()

    def look() -> None:
        while not leave.wait(LOOK_SECONDS):
            monitor.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join()


def seconds_per_tier(moments: Sequence[Moment]) -> dict[Tier, float]:
    """How long the stream was covered as each tier covers it."""
    seconds: dict[Tier, float] = {}
    for span in spans(moments):
        seconds[span.tier] = seconds.get(span.tier, 0.0) + span.seconds
    return seconds


def spans(moments: Sequence[Moment]) -> list[TierSpan]:
    """From when until when the stream was in which tier; a look counts until the next one."""
    ends = [*(moment.at for moment in moments[1:]), moments[-1].at]
    tier_spans = []
    for tier, group in groupby(zip(moments, ends, strict=True), key=lambda pair: pair[0].tier):
        looks = list(group)
        tier_spans.append(TierSpan(tier=tier, from_at=looks[0][0].at, to_at=looks[-1][1]))
    return tier_spans
