"""The stream as an asset: Dagster observes it; the stream runs outside of Dagster."""

from collections.abc import Mapping

import dagster as dg

from holdfast.assets import doctor, growth
from holdfast.assets.keys import stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.health import HealthVerdict
from holdfast.ft_policies.tiers import Mode
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.streaming.sources.lag import Lag

RATES = (
    SampleName.LAG_SECONDS,
    SampleName.LAG_ROWS,
    SampleName.INPUT_ROWS_PER_SECOND,
    SampleName.PROCESSED_ROWS_PER_SECOND,
    SampleName.OUTPUT_ROWS_PER_SECOND,
    SampleName.STATE_ROWS,
    SampleName.STATE_BYTES,
    SampleName.COMMIT_SECONDS,
)
FRESH_SECONDS = 60.0
HEALTHY = "healthy"
HEALTH = "health"
"""In the metadata of the check `healthy`."""


def spec(declared: StreamDeclaration) -> dg.AssetSpec:
    """What Dagster shows of a declared stream."""
    objective = declared.objective
    return dg.AssetSpec(
        stream_key(declared.name),
        description=f"The stream {declared.name}: {declared.app} on a {declared.source.kind} source. "
        "Each materialisation records up to which epoch its output is committed.",
        group_name="streams",
        kinds={"spark", "streaming"},
        metadata={
            "app": declared.app,
            "source": declared.source.kind,
            "tier": "automatic" if declared.controller.mode is Mode.AUTO else declared.tier.value,
            "recovery_time_seconds": objective.recovery_time,
            "guarantee": objective.guarantee.value,
        },
    )


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The checks of a running stream."""
    name = declared.name

    @dg.asset_check(
        asset=stream_key(name),
        name=HEALTHY,
        description="The stream runs or is stopped by request; its primary is neither dead, silent nor stuck, and keeps up "
        "with its input.",
    )
    def healthy(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            status = observe_stream(project, name)
        return dg.AssetCheckResult(
            passed=not status.verdict.health.is_alarming,
            metadata=verdict_metadata(status.verdict),
            description=status.verdict.reason,
        )

    return [healthy, *growth.input_checks(declared), *doctor.checks(declared)]


def verdict_metadata(verdict: HealthVerdict) -> dict[str, str]:
    """The health of the stream in a word, and the reason in a sentence."""
    return {HEALTH: verdict.health.value, "reason": verdict.reason}


def lag_metadata(lag: Lag | None) -> dict[str, float | int]:
    """How far the stream is behind its input, as far as that is known."""
    if lag is None:
        return {}
    rows = {} if lag.rows is None else {SampleName.LAG_ROWS.value: lag.rows}
    return {SampleName.LAG_SECONDS.value: lag.seconds, **rows}


def progress_metadata(
    status: StreamStatus, samples: Mapping[SampleName, Sample]
) -> dict[str, float | int | str]:
    """The progress and the rates of the stream, without old ones; Dagster's UI plots the numbers."""
    metadata: dict[str, float | int | str] = {
        **verdict_metadata(status.verdict),
        "tier": status.tier.value,
        "covered_tier": status.covered.value,
        **{
            name.value: samples[name].value
            for name in RATES
            if name in samples and status.at - samples[name].at <= FRESH_SECONDS
        },
    }
    if status.committed is not None:
        metadata |= {
            "epoch": status.committed.epoch,
            "rows": status.committed.rows,
            "commit_age_seconds": max(status.at - status.committed.committed_at, 0.0),
        }
    return metadata
