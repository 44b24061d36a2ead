"""What people declare about one stream: `configs/streams/*.yaml`."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from configs.controlling import Controller, with_mode
from configs.sinks import CallableSink, DeltaSink, Sink
from configs.sources import Source
from configs.units import (
    ByteSize,
    ConfValue,
    Count,
    CountOrZero,
    Duration,
    Integer,
    Name,
    Reference,
    Section,
    Share,
    Text,
    cannot_hold,
    written_as,
)
from ft_policies.checkpoints import CheckpointPolicy
from ft_policies.epochs import Pace
from ft_policies.health import HealthPolicy
from ft_policies.playbooks.drill import DisturbanceBudget, Fault
from ft_policies.retention import RetentionPolicy
from ft_policies.spare_capacity import SpareCapacityPolicy
from ft_policies.tiers import Guarantee, Tier

FIXED_SPARK_CONF = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    "spark.sql.session.timeZone": "UTC",
}
OWNED_SPARK_CONF = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "batch k must be epoch k; idle time is an empty epoch",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "snapshots rely on how Spark names its state files",
    "spark.sql.session.timeZone": "tables and digests are in UTC",
    "spark.sql.streaming.checkpointLocation": "each incarnation of a replica gets a folder of its own",
    "spark.driver.memory": "say it as resources.driver_memory",
    "spark.master": "say it as resources.master",
}


class Epochs(Section):
    """When an epoch closes: after some time, when it is full, or when the input is silent."""

    seconds: Duration | None = 1.0
    rows: Count | None = 1_000_000
    silence: Duration = 5.0

    @model_validator(mode="after")
    def _closes(self) -> Self:
        if self.seconds is None and self.rows is None:
            raise cannot_hold(("seconds",), "at least one of seconds and rows must be set")
        return self

    def pace(self) -> Pace:
        """The policy that this section describes."""
        return Pace(seconds=self.seconds, rows=self.rows, silence_seconds=self.silence)


class Checkpoints(Section):
    """When a snapshot is shipped: after epochs, time or new bytes, whichever comes first."""

    epochs: Count | None = None
    every: Duration | None = None
    bytes: ByteSize | None = None

    @model_validator(mode="after")
    def _happens(self) -> Self:
        if self.epochs is None and self.every is None and self.bytes is None:
            raise cannot_hold(("every",), "at least one of epochs, every and bytes must be set")
        return self

    def policy(self) -> CheckpointPolicy:
        """The policy that this section describes."""
        return CheckpointPolicy(epochs=self.epochs, seconds=self.every, bytes=self.bytes)


class Retention(Section):
    """Which snapshots are kept: the last few, and one for each of the last hours and days."""

    last: Integer = 5
    hourly: CountOrZero = 0
    daily: CountOrZero = 0

    @field_validator("last")
    @classmethod
    def _keeps_the_newest(cls, last: int) -> int:
        if last < 1:
            raise PydanticCustomError(
                "retention", "must be at least 1: less would drop the newest snapshot"
            )
        return last

    def policy(self) -> RetentionPolicy:
        """The policy that this section describes."""
        return RetentionPolicy(last=self.last, hourly=self.hourly, daily=self.daily)


class Objective(Section):
    """How long a recovery may take, and what it may cost in data."""

    recovery_time: Duration
    guarantee: Guarantee = Guarantee.PRECISE


class Supervision(Section):
    """How fast a dead or stuck replica is noticed."""

    heartbeat: Duration = 0.5
    lease: Duration = 3.0
    stuck_after: Duration = 60.0
    start_within: Duration = 120.0

    @model_validator(mode="after")
    def _lease_outlives_a_lost_heartbeat(self) -> Self:
        if self.lease < 2 * self.heartbeat:
            raise cannot_hold(
                ("lease",),
                f"must be at least two heartbeats ({2 * self.heartbeat:g} s): "
                "one late heartbeat must not cost the lease",
            )
        return self

    def policy(self) -> HealthPolicy:
        """The policy that this section describes."""
        return HealthPolicy(
            lease_seconds=self.lease,
            stuck_after_seconds=self.stuck_after,
            start_within_seconds=self.start_within,
        )


class SpareCapacity(Section):
    """Run the secondary on what the host has left: at low priority, and paused when that is little."""

    nice: Annotated[int, Field(strict=True, ge=0, le=19)] = 10
    pause_above: Share = 0.9
    resume_below: Share = 0.7
    after: Duration = 10.0
    queue_epochs: Count = 30

    @model_validator(mode="after")
    def _has_a_band(self) -> Self:
        if self.resume_below >= self.pause_above:
            raise cannot_hold(
                ("resume_below",),
                f"must be less than pause_above ({self.pause_above:g}): "
                "otherwise the secondary would go back and forth",
            )
        return self

    def policy(self) -> SpareCapacityPolicy:
        """The policy that this section describes."""
        return SpareCapacityPolicy(
            pause_above=self.pause_above,
            resume_below=self.resume_below,
            after_seconds=self.after,
            queue_epochs=self.queue_epochs,
        )


class Secondary(Section):
    """How the secondary keeps up, in the tiers that have one."""

    sync: Duration = 5.0
    spare_capacity: SpareCapacity | None = None


class Drills(Section):
    """How often the stream may be disturbed, by drills and real failures together; 0 is no drill.

    `fault` is what the schedule injects.
    """

    most: CountOrZero = 3
    per: Duration = 86400.0
    fault: Fault = Fault.KILL

    @model_validator(mode="before")
    @classmethod
    def _accept_blow(cls, declared: Any) -> Any:
        """`blow` is the name that `fault` had; it goes with the next version."""
        if isinstance(declared, dict) and "blow" in declared and "fault" not in declared:
            return {"fault" if key == "blow" else key: value for key, value in declared.items()}
        return declared

    def budget(self) -> DisturbanceBudget:
        """The policy that this section describes."""
        return DisturbanceBudget(most=self.most, period_seconds=self.per)


class Resources(Section):
    """What a replica runs on."""

    driver_memory: Annotated[
        str, written_as(r"[1-9]\d*[kmgtKMGT]", "a size as Spark writes it, such as 512m or 2g")
    ] = "1g"
    master: Annotated[
        str,
        written_as(
            r"local\[([1-9]\d*|\*)\]|spark://.+|k8s://.+|yarn",
            "local[n], spark://host:port, k8s://… or yarn",
        ),
    ] = "local[1]"
    folder: Text | None = None
    spark_conf: dict[str, ConfValue] = Field(default_factory=dict)

    @field_validator("spark_conf")
    @classmethod
    def _leaves_what_holdfast_owns(cls, conf: dict[str, str]) -> dict[str, str]:
        for key in sorted(conf.keys() & OWNED_SPARK_CONF.keys()):
            raise cannot_hold((key,), f"is set by Holdfast: {OWNED_SPARK_CONF[key]}")
        return conf


class StreamDeclaration(Section):
    """A long-running Spark job: source, the user's `build(df, params)`, sink, and an objective."""

    name: Name
    app: Reference
    code: Text | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    source: Annotated[Source, Field(discriminator="kind")]
    sink: Annotated[Sink, Field(discriminator="kind")] = DeltaSink()
    output_mode: Literal["append", "update"] = "append"
    epoch: Epochs = Epochs()
    checkpoint: Checkpoints = Checkpoints(every=10.0)
    retention: Retention = Retention()
    objective: Objective
    supervision: Supervision = Supervision()
    prices: Name = "on_demand"
    resources: Resources = Resources()
    expectations: Reference | None = None
    tier: Tier = Tier.PASSIVE_REPLICATION
    secondary: Secondary = Secondary()
    drills: Drills = Drills()
    controller: Controller = Controller()

    @model_validator(mode="before")
    @classmethod
    def _says_its_mode(cls, declaration: Any) -> Any:
        return with_mode(declaration)

    @model_validator(mode="after")
    def _slow_is_not_stuck(self) -> Self:
        quiet = self.epoch.silence + (self.epoch.seconds or 0.0)
        if self.supervision.stuck_after <= quiet:
            raise cannot_hold(
                ("supervision", "stuck_after"),
                f"must be longer than epoch.silence + epoch.seconds ({quiet:g} s): "
                "a stream that waits for input is not stuck",
            )
        return self

    @model_validator(mode="after")
    def _sink_keeps_the_guarantee(self) -> Self:
        precise = self.objective.guarantee is Guarantee.PRECISE
        if precise and isinstance(self.sink, CallableSink) and not self.sink.idempotent:
            raise cannot_hold(
                ("objective", "guarantee"),
                "precise needs a sink that may be called twice for one epoch: "
                "set sink.idempotent: true if yours may, otherwise guarantee: rollback",
            )
        return self

    @model_validator(mode="after")
    def _sink_bears_the_tier(self) -> Self:
        objection = self.objection_to(self.tier)
        if objection is not None:
            raise cannot_hold(("tier",), objection)
        return self

    @model_validator(mode="after")
    def _begins_within_bounds(self) -> Self:
        self.controller.demand_room(
            checkpoint_every=self.checkpoint.every, sync=self.secondary.sync
        )
        return self

    def objection_to(self, tier: Tier) -> str | None:
        """Why the stream cannot be in this tier; `None` if it can."""
        both_send = tier is Tier.ACTIVE_REPLICATION
        if both_send and isinstance(self.sink, CallableSink) and not self.sink.idempotent:
            return (
                "active_replication has both replicas call the sink for each epoch: "
                "set sink.idempotent: true if yours bears that, otherwise choose active_standby"
            )
        return None
