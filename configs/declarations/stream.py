"""The declaration of one stream: `configs/streams/*.yaml`."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from holdfast.configs.declarations.controller import Controller, fill_in_mode
from holdfast.configs.declarations.sinks import CallableSink, DeltaSink, Sink
from holdfast.configs.declarations.sources import Source
from holdfast.configs.units import (
    ByteSize,
    ConfValue,
    Count,
    CountOrZero,
    Duration,
    Integer,
    LocalFolder,
    Name,
    Pause,
    Reference,
    Section,
    Share,
    matches_pattern,
    relation_error,
)
from holdfast.ft_policies.driver import SpareCapacityPolicy
from holdfast.ft_policies.epochs import Pace
from holdfast.ft_policies.playbooks.drill import DisturbanceBudget, Fault
from holdfast.ft_policies.snapshots import CheckpointPolicy, RetentionPolicy
from holdfast.ft_policies.tiers import Guarantee, Tier
from holdfast.ft_policies.timings import TimingError, Timings

LEAST_MEMORY, MOST_MEMORY = 450 * 1024**2, 16 * 1024**4
OLD_FAULT = "blow"  # house: old word
FIXED_SPARK_CONF = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    "spark.sql.session.timeZone": "UTC",
}
OWNED_SPARK_CONF = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "batch k must be epoch k, and idle time is an empty epoch",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "snapshots rely on how Spark names its state files",
    "spark.sql.session.timeZone": "tables and digests are in UTC",
    "spark.sql.streaming.checkpointLocation": "each incarnation of a replica gets a folder of its own",
    "spark.driver.memory": "set resources.driver_memory instead",
    "spark.master": "set resources.master instead",
}


class Epochs(Section):
    """When an epoch closes: after some time, at a number of rows, or when no input arrives."""

    seconds: Pause | None = 1.0
    rows: Count | None = 1_000_000
    silence: Pause = 5.0

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.seconds is None and self.rows is None:
            raise relation_error(("seconds",), "at least one of seconds and rows must be set")
        return self

    def pace(self) -> Pace:
        return Pace(seconds=self.seconds, rows=self.rows, silence_seconds=self.silence)


class Checkpoints(Section):
    """When a snapshot is shipped: after epochs, time or new bytes, the earliest of them."""

    epochs: Count | None = None
    every: Duration | None = None
    bytes: ByteSize | None = None

    @model_validator(mode="after")
    def _has_a_trigger(self) -> Self:
        if self.epochs is None and self.every is None and self.bytes is None:
            raise relation_error(("every",), "at least one of epochs, every and bytes must be set")
        return self

    def policy(self) -> CheckpointPolicy:
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
                "retention", "must be at least 1: 0 would delete the newest snapshot"
            )
        return last

    def policy(self) -> RetentionPolicy:
        return RetentionPolicy(last=self.last, hourly=self.hourly, daily=self.daily)


class Objective(Section):
    """How long a recovery may take, and what it may cost in data."""

    recovery_time: Duration
    guarantee: Guarantee = Guarantee.PRECISE


class Supervision(Section):
    """How fast a dead or stuck replica is detected."""

    heartbeat: Pause = 0.5
    lease: Pause = 3.0
    stuck_after: Duration = 60.0
    start_within: Duration = 120.0

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        try:
            self.timings()
        except TimingError as error:
            raise relation_error((error.field,), str(error)) from error
        return self

    def timings(self) -> Timings:
        """The periods that follow from this section."""
        return Timings.derive(
            heartbeat=self.heartbeat,
            lease=self.lease,
            stuck_after=self.stuck_after,
            start_within=self.start_within,
        )


class SpareCapacity(Section):
    """Run the secondary on spare capacity of the host: at low priority, and paused while the host is busy."""

    nice: Annotated[int, Field(strict=True, ge=0, le=19)] = 10
    pause_above: Share = 0.9
    resume_below: Share = 0.7
    after: Duration = 10.0
    queue_epochs: Count = 30

    @model_validator(mode="after")
    def _has_a_band(self) -> Self:
        if self.resume_below >= self.pause_above:
            raise relation_error(
                ("resume_below",),
                f"must be less than pause_above ({self.pause_above:g}): "
                "otherwise the secondary would pause and resume without end",
            )
        return self

    def policy(self) -> SpareCapacityPolicy:
        return SpareCapacityPolicy(
            pause_above=self.pause_above,
            resume_below=self.resume_below,
            after_seconds=self.after,
            queue_epochs=self.queue_epochs,
        )


class Secondary(Section):
    """How the secondary follows the primary, in the tiers that have one."""

    sync: Pause = 5.0
    spare_capacity: SpareCapacity | None = None


class Drills(Section):
    """How often drills and real failures together may disturb the stream; 0 means no drill.

    `fault` is what the schedule injects.
    """

    most: CountOrZero = 3
    per: Duration = 86400.0
    fault: Fault = Fault.KILL

    @model_validator(mode="before")
    @classmethod
    def _accept_old_name(cls, declared: Any) -> Any:
        """Accept the name that `fault` had until the next version."""
        if isinstance(declared, dict) and OLD_FAULT in declared and "fault" not in declared:
            return {"fault" if key == OLD_FAULT else key: value for key, value in declared.items()}
        return declared

    def budget(self) -> DisturbanceBudget:
        return DisturbanceBudget(most=self.most, period_seconds=self.per)


def memory_bytes(written: str) -> int:
    """The bytes of a size as Spark writes it."""
    return int(written[:-1]) << 10 * ("kmgt".index(written[-1].lower()) + 1)


def _check_memory(written: str) -> str:
    if not LEAST_MEMORY <= memory_bytes(written) <= MOST_MEMORY:
        allowed = "from 450m, which Spark needs to start, to 16t"
        raise PydanticCustomError("shape", "must be {allowed}", {"allowed": allowed})
    return written


class Resources(Section):
    """What a replica runs on."""

    driver_memory: Annotated[
        str,
        matches_pattern(
            r"[1-9]\d{0,11}[kmgtKMGT]", "a size as Spark writes it, such as 512m or 2g"
        ),
        AfterValidator(_check_memory),
    ] = "1g"
    master: Annotated[
        str,
        matches_pattern(
            r"local\[([1-9]\d{0,2}|\*)\]|spark://.+|k8s://.+|yarn",
            "local[n] with n up to 999, spark://host:port, k8s://… or yarn",
        ),
    ] = "local[1]"
    folder: LocalFolder | None = None
    spark_conf: dict[str, ConfValue] = Field(default_factory=dict)

    @field_validator("spark_conf")
    @classmethod
    def _leaves_reserved_keys(cls, conf: dict[str, str]) -> dict[str, str]:
        for key in sorted(conf.keys() & OWNED_SPARK_CONF.keys()):
            raise relation_error((key,), f"is set by Holdfast: {OWNED_SPARK_CONF[key]}")
        return conf


class StreamDeclaration(Section):
    """A long-running Spark job: source, the user's `build(df, params)`, sink, and an objective."""

    name: Name
    app: Reference
    code: LocalFolder | None = None
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
    def _has_a_mode(cls, declaration: Any) -> Any:
        return fill_in_mode(declaration)

    @model_validator(mode="after")
    def _slow_is_not_stuck(self) -> Self:
        quiet = self.epoch.silence + (self.epoch.seconds or 0.0)
        if self.supervision.stuck_after <= quiet:
            raise relation_error(
                ("supervision", "stuck_after"),
                f"must be longer than epoch.silence + epoch.seconds ({quiet:g} s): "
                "a stream that waits for input must not count as stuck",
            )
        return self

    @model_validator(mode="after")
    def _sink_keeps_the_guarantee(self) -> Self:
        precise = self.objective.guarantee is Guarantee.PRECISE
        if precise and isinstance(self.sink, CallableSink) and not self.sink.idempotent:
            raise relation_error(
                ("objective", "guarantee"),
                "precise needs an idempotent sink: set sink.idempotent: true if a second call for "
                "an epoch changes nothing, otherwise guarantee: rollback",
            )
        return self

    @model_validator(mode="after")
    def _sink_allows_the_tier(self) -> Self:
        objection = self.objection_to(self.tier)
        if objection is not None:
            raise relation_error(("tier",), objection)
        return self

    @model_validator(mode="after")
    def _starts_within_bounds(self) -> Self:
        self.controller.require_initial_intervals(
            checkpoint_every=self.checkpoint.every, sync=self.secondary.sync
        )
        return self

    def objection_to(self, tier: Tier) -> str | None:
        """The reason why the stream cannot be in this tier; `None` if it can."""
        both_send = tier is Tier.ACTIVE_REPLICATION
        if both_send and isinstance(self.sink, CallableSink) and not self.sink.idempotent:
            return (
                "active_replication needs an idempotent sink, which both replicas call: set sink.idempotent: "
                "true if a second call for an epoch changes nothing, otherwise choose active_standby"
            )
        return None
