"""The sensor that lets streams show in Dagster: what advanced, what was shipped, who got ill.

A stream commits an epoch a second, and Dagster keeps every event for ever; so progress is reported
at most every quarter of a minute, a change of health or of tier at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.assets.keys import output_key, snapshots_key, stream_key, tiers_key
from holdfast.assets.project_resource import Worlds
from holdfast.assets.snapshots import snapshot_metadata
from holdfast.assets.streams import HEALTHY, progress_metadata, verdict_metadata
from holdfast.assets.tiers import TIER_IS_HELD, coverage_metadata, tier_metadata
from holdfast.ft_policies.errors import TransientError
from holdfast.observation.coverage import TierCoverage, coverage_of
from holdfast.observation.status import StreamSeen, observe
from holdfast.orchestration.sensors.recovery import TICK_SECONDS
from holdfast.resources.control_store.records import RestoreRow, SnapshotRow, TierChange
from holdfast.resources.project import Project

REPORT_SECONDS = 15.0
SUMMED_EPOCHS = 1_000

Event: TypeAlias = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation


class StreamMark(BaseModel):
    """How far one stream has been reported."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    epoch: int = -1
    history: int = 0
    reported_at: float = 0.0
    health: str = ""
    snapshot: str = ""
    tier: str = ""

    def in_history_of(self, restore: RestoreRow | None) -> "StreamMark":
        """The mark of a stream that was restored since: what it had reported beyond that is undone."""
        if restore is None or not restore.begun or restore.history == self.history:
            return self
        undone = {"epoch": min(self.epoch, restore.epoch), "history": restore.history}
        return self.model_copy(update=undone)


class Marks(BaseModel):
    """The cursor; one of another version, or none, is an empty one: everything is reported anew."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    streams: dict[str, StreamMark] = {}

    @classmethod
    def parse(cls, cursor: str | None) -> "Marks":
        """Read what the last tick left."""
        try:
            return cls.model_validate_json(cursor or "{}")
        except ValidationError:
            return cls()


@dataclass(frozen=True, slots=True)
class _Look:
    """What is new about one stream."""

    world: Project
    seen: StreamSeen
    newest: SnapshotRow | None
    coverage: TierCoverage
    asked: TierChange | None
    mark: StreamMark

    @property
    def advanced(self) -> bool:
        committed = self.seen.committed
        waited = self.seen.at - self.mark.reported_at >= REPORT_SECONDS
        return committed is not None and committed.epoch > self.mark.epoch and waited

    @property
    def changed_health(self) -> bool:
        return self.seen.verdict.health.value != self.mark.health

    @property
    def shipped(self) -> bool:
        return self.newest is not None and self.newest.id != self.mark.snapshot

    @property
    def tier(self) -> str:
        """All that makes a difference to the stream's tier, in one word."""
        coverage = self.coverage
        held = "held" if coverage.covered else "lacking"
        asked = "" if self.asked is None else f"{self.asked.id}/{self.asked.reached_at is not None}"
        return f"{coverage.tier}/{coverage.covered_tier}/{held}/{asked}"

    def events(self) -> Iterator[Event]:
        name = self.seen.name
        if self.advanced:
            yield from self._progress(name)
        if self.shipped and self.newest is not None:
            yield dg.AssetMaterialization(
                snapshots_key(name), metadata=snapshot_metadata(self.newest, at=self.seen.at)
            )
        if self.changed_health:
            yield from self._health(name)
        if self.tier != self.mark.tier:
            yield from self._tier(name)

    def next_mark(self) -> StreamMark:
        committed = self.seen.committed
        return StreamMark(
            epoch=committed.epoch if self.advanced and committed else self.mark.epoch,
            history=self.mark.history,
            reported_at=self.seen.at if self.advanced else self.mark.reported_at,
            health=self.seen.verdict.health.value,
            snapshot=self.newest.id if self.newest is not None else self.mark.snapshot,
            tier=self.tier,
        )

    def _progress(self, name: str) -> Iterator[Event]:
        store = self.world.store
        primary = self.seen.primary
        samples = store.samples.latest(name, replica=None if primary is None else primary.id)
        metadata = progress_metadata(self.seen, samples)
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
        verdict = self.seen.verdict
        metadata = verdict_metadata(verdict)
        tier = {"tier": self.seen.tier.value, "covered_tier": self.seen.covered.value}
        yield dg.AssetObservation(
            stream_key(name),
            description=verdict.reason,
            metadata={**metadata, **tier, "was": self.mark.health},
        )
        yield dg.AssetCheckEvaluation(
            asset_key=stream_key(name),
            check_name=HEALTHY,
            passed=not verdict.health.failed,
            metadata=metadata,
            description=verdict.reason,
        )

    def _tier(self, name: str) -> Iterator[Event]:
        yield dg.AssetMaterialization(
            tiers_key(name),
            description=self.coverage.reason,
            metadata=tier_metadata(self.world, self.seen),
        )
        yield dg.AssetCheckEvaluation(
            asset_key=tiers_key(name),
            check_name=TIER_IS_HELD,
            passed=self.coverage.covered,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=coverage_metadata(self.coverage),
            description=self.coverage.reason,
        )


@dg.sensor(
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Shows committed epochs, new snapshots, changes of health and of tier on the streams' assets.",
)
def stream_observer(
    context: dg.SensorEvaluationContext, worlds: dg.ResourceParam[Worlds]
) -> dg.SensorResult:
    """Report what is new since the last tick."""
    marks = Marks.parse(context.cursor)
    try:
        with worlds.open() as world:
            looks = [_look(world, name, marks) for name in sorted(world.config.streams)]
            events = [event for look in looks for event in look.events()]
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    return dg.SensorResult(
        asset_events=events,
        cursor=Marks(streams={one.seen.name: one.next_mark() for one in looks}).model_dump_json(),
        skip_reason=f"no run is needed; {len(events)} events" if events else "nothing is new",
    )


def _look(world: Project, name: str, marks: Marks) -> _Look:
    seen = observe(world, name)
    newest = world.store.snapshots.newest(name)
    history = world.store.tiers.history(name, limit=1)
    return _Look(
        world=world,
        seen=seen,
        newest=newest,
        coverage=coverage_of(seen),
        asked=history[-1] if history else None,
        mark=marks.streams.get(name, StreamMark()).in_history_of(world.store.restores.newest(name)),
    )
