"""The checks on what grows with age: the output table, and the input that has to be kept."""

import dagster as dg

from holdfast.assets.keys import output_key, stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies import quantities
from holdfast.observation.growth import (
    TableGrowth,
    find_margin,
    measure_table,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project

MOST_FILES = 20_000
MOST_LOG_BYTES = 1024**3
SLOW_COMMIT_SECONDS = 1.0


def table_checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The check of the size of a stream's table."""
    name = declared.name
    if not isinstance(declared.sink, DeltaSink):
        return []

    @dg.asset_check(
        asset=output_key(name),
        name="table_bounded",
        description=f"The table has at most {MOST_FILES:,} files and {quantities.size(MOST_LOG_BYTES)} of log, and an "
        f"epoch is committed within {_slow_commit(declared):g} s.",
    )
    def table_bounded(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            return judge_table(declared, measure_table(project, name))

    return [table_bounded]


def judge_table(declared: StreamDeclaration, growth: TableGrowth | None) -> dg.AssetCheckResult:
    """Compare the size of a table with the limits; a table beyond them makes each commit slower."""
    if growth is None:
        return dg.AssetCheckResult(passed=True, description="there is no table yet")
    commit = growth.commit_seconds or 0.0
    problems = {
        f"{growth.mergeable:,} files that are not merged: run `holdfast compact {declared.name}`, and see whether the schedule "
        "`compaction` is on and why its last run failed; if it runs, make epochs longer": growth.mergeable
        > MOST_FILES,
        f"{growth.files:,} files, which a compaction leaves as they are: take columns with fewer values for "
        "sink.partition_by, in a new stream": growth.files > MOST_FILES >= growth.mergeable,
        f"{quantities.size(growth.log_bytes)} of log: shorten retention.table_versions, or make epochs longer, and see "
        "whether the schedules `compaction` and `retention` are on": growth.log_bytes
        > MOST_LOG_BYTES,
        f"a commit took {quantities.seconds(commit)}: look at the storage of the table; each recovery waits for one commit": commit
        > _slow_commit(declared),
    }
    present = [problem for problem, is_one in problems.items() if is_one]
    return dg.AssetCheckResult(
        passed=not present,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(present)
        or f"{growth.files:,} files, {quantities.size(growth.log_bytes)} of log",
        metadata={
            "files": growth.files,
            "log_bytes": growth.log_bytes,
            **(
                {}
                if growth.commit_seconds is None
                else {SampleName.COMMIT_SECONDS.value: growth.commit_seconds}
            ),
        },
    )


def _slow_commit(declared: StreamDeclaration) -> float:
    """Commits that take longer than an epoch let a stream fall behind."""
    return max(SLOW_COMMIT_SECONDS, declared.epoch.seconds or 0.0)


def input_checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The check of the input that a stream may read again; none if its source computes its rows."""
    name = declared.name
    if not isinstance(declared.source, FilesSource):
        return []

    @dg.asset_check(
        asset=stream_key(name),
        name="input_kept",
        description="The oldest input that a recovery or a restore may read again is there, and the source keeps it "
        "long enough (`source.kept_for`).",
    )
    def input_kept(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            return judge_input(project, name)

    return [input_kept]


def judge_input(project: Project, stream: str) -> dg.AssetCheckResult:
    """A recovery that cannot read its input is an error, a restore that could not is a warning."""
    verdict = find_margin(project, stream)
    margin = verdict.margin_seconds
    return dg.AssetCheckResult(
        passed=verdict.recoverable and verdict.lasting,
        severity=dg.AssetCheckSeverity.WARN if verdict.recoverable else dg.AssetCheckSeverity.ERROR,
        description=verdict.reason,
        metadata={
            SampleName.REPLAY_FLOOR.value: verdict.first_epoch,
            **({} if margin is None else {SampleName.REPLAY_MARGIN_SECONDS.value: margin}),
        },
    )
