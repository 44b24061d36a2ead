"""The sensor that reports streams to Dagster: committed epochs, new snapshots, changes of health and tier.

A stream may commit an epoch a second, and Dagster keeps each of these events forever; so progress and snapshots are
reported at most every 15 min, a change of health or of tier at once.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.assets.keys import output_key, snapshots_key, stream_key, tiers_key
from holdfast.assets.project_resource import ProjectResource
from holdfast.assets.snapshots import snapshot_metadata
from holdfast.assets.streams import HEALTHY, lag_metadata, progress_metadata, verdict_metadata
from holdfast.assets.tiers import TIER_IS_COVERED, coverage_metadata, tier_metadata
from holdfast.ft_policies.errors import TransientError
from holdfast.observation.coverage import TierCoverage, coverage_of
from holdfast.observation.lag import OBSERVER, last_lag, read_lag
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.orchestration.lasting import LastingState, lasting_state, report_lasting
from holdfast.orchestration.sensors.recovery import TICK_SECONDS
from holdfast.resources.control_store.records import RestoreRow, Sample, SnapshotRow, TierChange
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from holdfast.streaming.sources.lag import Lag

log = logging.getLogger(__name__)

REPORT_SECONDS = 900.0
SUMMED_EPOCHS = 1_000

Event: TypeAlias = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation


class StreamMark(BaseModel):
    """What was reported last for one stream."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    epoch: int = -1
    history: int = 0
    reported_at: float = 0.0
    health: str = ""
    snapshot: str = ""
    snapshot_at: float = 0.0
    tier: str = ""
    lasting: str = ""
    lasting_since: float = 0.0

    def after_restore(self, restore: RestoreRow | None) -> "StreamMark":
        """The mark, set back if the stream was restored since: later epochs are reported again."""
        if restore is None or not restore.begun or restore.history == self.history:
            return self
        undone = {"epoch": min(self.epoch, restore.epoch), "history": restore.history}
        return self.model_copy(update=undone)


class Marks(BaseModel):
    """The cursor; without one, or with one of another version, everything is reported again."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    streams: dict[str, StreamMark] = {}

    @classmethod
    def parse(cls, cursor: str | None) -> "Marks":
        try:
            return cls.model_validate_json(cursor or "{}")
        except ValidationError:
            return cls()


@dataclass(frozen=True, slots=True)
class _Observation:
    """One stream as observed now, beside what was reported last."""

    project: Project
    status: StreamStatus
    newest: SnapshotRow | None
    coverage: TierCoverage
    requested: TierChange | None
    mark: StreamMark
    lag: Lag | None
    lasting: LastingState

    @property
    def advanced(self) -> bool:
        committed = self.status.committed
        waited = self.status.at - self.mark.reported_at >= REPORT_SECONDS
        return committed is not None and committed.epoch > self.mark.epoch and waited

    @property
    def changed_health(self) -> bool:
        return self.status.verdict.health.value != self.mark.health

    @property
    def shipped(self) -> bool:
        waited = self.status.at - self.mark.snapshot_at >= REPORT_SECONDS
        return self.newest is not None and self.newest.id != self.mark.snapshot and waited

    @property
    def tier(self) -> str:
        """A fingerprint of requested tier, covered tier and pending change: a new one is reported."""
        coverage = self.coverage
        state = "covered" if coverage.covered else "lacking"
        change = self.requested
        requested = "" if change is None else f"{change.id}/{change.reached_at is not None}"
        return f"{coverage.tier}/{coverage.covered_tier}/{state}/{requested}"

    def events(self) -> Iterator[Event]:
        name = self.status.name
        if self.advanced:
            yield from self._progress(name)
        if self.shipped and self.newest is not None:
            yield dg.AssetMaterialization(
                snapshots_key(name), metadata=snapshot_metadata(self.newest, at=self.status.at)
            )
        if self.changed_health:
            yield from self._health(name)
        if self.tier != self.mark.tier:
            yield from self._tier(name)

    def next_mark(self) -> StreamMark:
        committed = self.status.committed
        return StreamMark(
            epoch=committed.epoch if self.advanced and committed else self.mark.epoch,
            history=self.mark.history,
            reported_at=self.status.at if self.advanced else self.mark.reported_at,
            health=self.status.verdict.health.value,
            snapshot=self.newest.id if self.shipped and self.newest else self.mark.snapshot,
            snapshot_at=self.status.at if self.shipped else self.mark.snapshot_at,
            tier=self.tier,
            lasting=self.lasting.kind or "",
            lasting_since=self.lasting.since,
        )

    def _progress(self, name: str) -> Iterator[Event]:
        store = self.project.store
        primary = self.status.primary
        samples = store.samples.latest(name, replica=None if primary is None else primary.id)
        metadata = progress_metadata(self.status, samples)
        last = metadata["epoch"]
        first = max(self.mark.epoch, int(last) - SUMMED_EPOCHS) + 1
        entries = store.ledger.between(name, first, int(last))
        yield dg.AssetMaterialization(stream_key(name), metadata=metadata)
        yield dg.AssetMaterialization(
            output_key(name),
            metadata={
                "epoch": last,
                "epochs_since_last_report": len(entries),
                "rows_since_last_report": sum(entry.rows for entry in entries),
            },
        )

    def _health(self, name: str) -> Iterator[Event]:
        verdict = self.status.verdict
        metadata = {**verdict_metadata(verdict), **lag_metadata(self.lag)}
        tier = {"tier": self.status.tier.value, "covered_tier": self.status.covered.value}
        yield dg.AssetObservation(
            stream_key(name),
            description=verdict.reason,
            metadata={**metadata, **tier, "was": self.mark.health},
        )
        yield dg.AssetCheckEvaluation(
            asset_key=stream_key(name),
            check_name=HEALTHY,
            passed=not verdict.health.is_alarming,
            metadata=metadata,
            description=verdict.reason,
        )

    def _tier(self, name: str) -> Iterator[Event]:
        yield dg.AssetMaterialization(
            tiers_key(name),
            description=self.coverage.reason,
            metadata=tier_metadata(self.project, self.status),
        )
        yield dg.AssetCheckEvaluation(
            asset_key=tiers_key(name),
            check_name=TIER_IS_COVERED,
            passed=self.coverage.covered,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=coverage_metadata(self.coverage),
            description=self.coverage.reason,
        )


@dg.sensor(
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports committed epochs, new snapshots and changes of health and tier on the assets of the streams.",
)
def stream_observer(
    context: dg.SensorEvaluationContext, projects: dg.ResourceParam[ProjectResource]
) -> dg.SensorResult:
    """Report what has changed since the last tick."""
    marks = Marks.parse(context.cursor)
    try:
        with projects.open() as project:
            results = [_report(project, name, marks) for name in sorted(project.config.streams)]
            reports = [report for report in results if report is not None]
            events = [event for _, of_stream in reports for event in of_stream]
            report_lasting(project, [row.lasting for row, _ in reports])
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    return dg.SensorResult(
        asset_events=events,
        cursor=Marks(
            streams=marks.streams | {row.status.name: row.next_mark() for row, _ in reports}
        ).model_dump_json(),
        skip_reason=f"no run is needed: {len(events)} events reported"
        if events
        else "nothing has changed",
    )


def _report(project: Project, name: str, marks: Marks) -> tuple[_Observation, list[Event]] | None:
    """A stream with its events; an unexpected error is logged, so that the other streams are still reported."""
    try:
        observation = _observe(project, name, marks)
        return observation, list(observation.events())
    except TransientError:
        raise
    except Exception:
        log.exception("%s cannot be observed", name)
        return None


def _observe(project: Project, name: str, marks: Marks) -> _Observation:
    status = observe_stream(project, name)
    mark = marks.streams.get(name, StreamMark())
    newest = project.store.snapshots.newest(name)
    history = project.store.tiers.history(name, limit=1)
    return _Observation(
        project=project,
        status=status,
        newest=newest,
        coverage=coverage_of(status),
        requested=history[-1] if history else None,
        mark=mark.after_restore(project.store.restores.newest(name)),
        lag=_record_lag(project, status),
        lasting=lasting_state(status, kind=mark.lasting, since=mark.lasting_since),
    )


def _record_lag(project: Project, status: StreamStatus) -> Lag | None:
    """Record once a minute the lag of a stream that should run and has no driver that does; `None` if there is no need."""
    live = status.primary is not None and not status.verdict.health.failed
    if live or not status.wanted:
        return None
    last = last_lag(project.store, status.name, {OBSERVER})
    lag = last or read_lag(project, status.name)
    if lag is None or last is not None:
        return lag
    values = {SampleName.LAG_SECONDS: lag.seconds, SampleName.LAG_ROWS: lag.rows}
    project.store.samples.write(
        [
            Sample(stream=status.name, replica=OBSERVER, name=name, value=value, at=status.at)
            for name, value in values.items()
            if value is not None
        ]
    )
    return lag
