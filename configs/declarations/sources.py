"""Where a stream's rows come from."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from holdfast.configs.ddl import check_columns
from holdfast.configs.units import (
    Count,
    Duration,
    Flag,
    Integer,
    Location,
    LongDuration,
    Moment,
    Pause,
    Reference,
    RowsPerSecond,
    Section,
    Share,
    matches_pattern,
    relation_error,
)


class ConstantProfile(Section):
    """The same rate all the time."""

    kind: Literal["constant"] = "constant"
    rows_per_second: RowsPerSecond


class StepProfile(Section):
    """One rate until `at`, another from then on."""

    kind: Literal["step"] = "step"
    rows_per_second: RowsPerSecond
    then_rows_per_second: RowsPerSecond
    at: Duration


class SpikesProfile(Section):
    """A base rate with a spike of `length` at the start of every `period`."""

    kind: Literal["spikes"] = "spikes"
    rows_per_second: RowsPerSecond
    spike_rows_per_second: RowsPerSecond
    length: Duration
    period: Duration

    @model_validator(mode="after")
    def _spike_ends(self) -> Self:
        if self.length >= self.period:
            raise relation_error(("length",), f"must be shorter than period ({self.period:g} s)")
        return self


class DiurnalProfile(Section):
    """A wave between a low and a high rate, as between night and day."""

    kind: Literal["diurnal"] = "diurnal"
    low_rows_per_second: RowsPerSecond
    high_rows_per_second: RowsPerSecond
    period: Duration

    @model_validator(mode="after")
    def _low_is_low(self) -> Self:
        if self.low_rows_per_second > self.high_rows_per_second:
            raise relation_error(
                ("low_rows_per_second",),
                f"must not exceed high_rows_per_second ({self.high_rows_per_second:g})",
            )
        return self


Profile: TypeAlias = ConstantProfile | StepProfile | SpikesProfile | DiurnalProfile


class RateSource(Section):
    """Rows computed from their offset by a seeded generator, at the pace of a profile.

    `start` is the event time of row 0; with `limit_rows` the input ends there.
    """

    kind: Literal["rate"] = "rate"
    seed: Integer
    keys: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    partitions: Annotated[int, Field(strict=True, ge=1, le=1024)] = 1
    profile: Annotated[Profile, Field(discriminator="kind")]
    start: Moment | None = None
    limit_rows: Count | None = None


Pattern = Annotated[
    str,
    matches_pattern(
        r"(?![._/])[^/]+",
        "a pattern of file names without a folder, such as *.csv: names that begin with . or _ are no input",
    ),
]


def _default_pattern(validated: dict[str, Any]) -> str:
    return f"*.{validated['format']}"


class DeadLetters(Section):
    """Records that cannot be parsed, or that `rules` reject, go to a separate table.

    More than the share `most` of them fails the stream's check. `rules` is a function from an Arrow batch to
    the reason of rejection, or null, for each row.
    """

    most: Share = 0.01
    rules: Reference | None = None
    path: Location | None = None


class FilesSource(Section):
    """Files that arrive in a folder or under an S3 prefix, read in the order of their names.

    A file is read once it has not changed for `settle`; `schema` is a Spark DDL string. `kept_for` says after which
    time the owner of the folder deletes a file: an alarm is raised before a recovery or a restore would miss it.
    """

    kind: Literal["files"] = "files"
    path: Location
    format: Literal["parquet", "jsonl", "csv"]
    pattern: Pattern = Field(default_factory=_default_pattern)
    columns: Annotated[str, Field(min_length=1, alias="schema"), AfterValidator(check_columns)]
    settle: Pause = 2.0
    poll: Pause = 1.0
    kept_for: LongDuration | None = None
    csv_header: Flag = True
    dead_letters: DeadLetters | None = None


Source: TypeAlias = RateSource | FilesSource
