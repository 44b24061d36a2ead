"""The stream as an asset: Dagster watches it, no run lives as long as it does."""

from collections.abc import Mapping

import dagster as dg

from holdfast.assets import doctor
from holdfast.assets.keys import stream_key
from holdfast.assets.project_resource import Worlds, explained
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.health import Verdict
from holdfast.observation.status import StreamSeen, observe
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName

RATES = (
    SampleName.LAG_ROWS,
    SampleName.INPUT_ROWS_PER_SECOND,
    SampleName.PROCESSED_ROWS_PER_SECOND,
    SampleName.OUTPUT_ROWS_PER_SECOND,
    SampleName.STATE_ROWS,
    SampleName.STATE_BYTES,
)
HEALTHY = "healthy"


def spec(declared: StreamDeclaration) -> dg.AssetSpec:
    """What Dagster shows of a declared stream."""
    objective = declared.objective
    return dg.AssetSpec(
        stream_key(declared.name),
        description=f"The stream {declared.name}: {declared.app} on a {declared.source.kind} source. "
        "Each materialisation says up to which epoch its output is committed.",
        group_name="streams",
        kinds={"spark", "streaming"},
        metadata={
            "app": declared.app,
            "source": declared.source.kind,
            "tier": declared.tier.value,
            "recovery_time_seconds": objective.recovery_time,
            "guarantee": objective.guarantee.value,
        },
    )


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The claims about a running stream."""
    name = declared.name

    @dg.asset_check(
        asset=stream_key(name),
        name=HEALTHY,
        description="The stream runs, or nobody wants it to; its primary is neither dead, silent nor stuck.",
    )
    def healthy(worlds: dg.ResourceParam[Worlds]) -> dg.AssetCheckResult:
        with explained(), worlds.open() as world:
            seen = observe(world, name)
        return dg.AssetCheckResult(
            passed=not seen.verdict.health.failed,
            metadata=verdict_metadata(seen.verdict),
            description=seen.verdict.reason,
        )

    return [healthy, *doctor.checks(declared)]


def verdict_metadata(verdict: Verdict) -> dict[str, str]:
    """How the stream is, in a word and in a sentence."""
    return {"health": verdict.health.value, "reason": verdict.reason}


def progress_metadata(
    seen: StreamSeen, samples: Mapping[SampleName, Sample]
) -> dict[str, float | int | str]:
    """How far the stream is and how fast; numbers become plots in Dagster's UI."""
    found: dict[str, float | int | str] = {
        **verdict_metadata(seen.verdict),
        "tier": seen.tier.value,
        "covered_tier": seen.covered.value,
        **{name.value: samples[name].value for name in RATES if name in samples},
    }
    if seen.committed is not None:
        found |= {
            "epoch": seen.committed.epoch,
            "rows": seen.committed.rows,
            "commit_age_seconds": max(seen.at - seen.committed.committed_at, 0.0),
        }
    return found
