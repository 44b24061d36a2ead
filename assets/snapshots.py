"""The snapshots of a stream as an asset: the age of the newest, whether it can be restored, and the last proof."""

import dagster as dg

from holdfast.assets.keys import snapshots_key, stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies import quantities
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.resources.control_store.records import SnapshotRow
from holdfast.resources.project import Project
from holdfast.resources.vault import catalogue

LATE_FACTOR = 3.0
PROVEN_WITHIN_DAYS = 7.0
DAY_SECONDS = 86400.0
SHOWN_PROBLEMS = 20


def spec(declared: StreamDeclaration) -> dg.AssetSpec:
    """What Dagster shows of a stream's snapshots."""
    policy, retention = declared.checkpoint, declared.retention
    return dg.AssetSpec(
        snapshots_key(declared.name),
        deps=[stream_key(declared.name)],
        description=f"Consistent cuts of the checkpoint of {declared.name} in the object store: "
        "what a recovery starts from.",
        group_name="snapshots",
        kinds={"s3"},
        metadata={
            "policy": policy.model_dump(mode="json", exclude_none=True),
            "retention": retention.model_dump(mode="json"),
        },
    )


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    name = declared.name

    @dg.asset_check(
        asset=snapshots_key(name),
        name="recent",
        description="While the stream runs, its newest snapshot is not much older than the policy allows.",
    )
    def recent(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            status = observe_stream(project, name)
            newest = project.store.snapshots.newest(name)
            return judge_age(project.config.stream(name), status, newest)

    @dg.asset_check(
        asset=snapshots_key(name),
        name="restorable",
        description="Every byte of the newest snapshot is in the object store and matches its digest.",
    )
    def restorable(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            return verify_newest(project, name)

    @dg.asset_check(
        asset=snapshots_key(name),
        name="proven",
        description="Within the last "
        f"{PROVEN_WITHIN_DAYS:.0f} days a snapshot was proven: restored, and processed from there.",
    )
    def proven(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            catalogued = project.store.snapshots
            newest, last = catalogued.newest(name), catalogued.last_proven(name)
            return judge_proof(name, newest, last, at=project.store.now())

    return [recent, restorable, proven]


def snapshot_metadata(row: SnapshotRow, *, at: float) -> dict[str, float | int | str]:
    """The epoch, age, sizes, cost and proof of a snapshot."""
    return {
        "snapshot": row.id,
        "epoch": row.epoch,
        "age_seconds": max(at - row.created_at, 0.0),
        "total_bytes": row.total_bytes,
        "new_bytes": row.new_bytes,
        "files": row.files,
        "requests": row.requests,
        "ship_seconds": row.seconds,
        **_proof(row, at=at),
    }


def _proof(row: SnapshotRow, *, at: float) -> dict[str, float]:
    if row.proven_at is None or row.proven_seconds is None:
        return {}
    ago = max(at - row.proven_at, 0.0)
    return {"proven_seconds_ago": ago, "proven_in_seconds": row.proven_seconds}


def compute_expected_seconds(declared: StreamDeclaration) -> float:
    """The time between two snapshots by the policy; without a limit in time, the recovery objective."""
    policy, epoch = declared.checkpoint, declared.epoch
    limits = []
    if policy.every is not None:
        limits.append(policy.every)
    if policy.epochs is not None:
        limits.append(policy.epochs * max(epoch.silence, epoch.seconds or 0.0))
    return min(limits, default=declared.objective.recovery_time)


def judge_age(
    declared: StreamDeclaration, status: StreamStatus, newest: SnapshotRow | None
) -> dg.AssetCheckResult:
    """Compare the age of the newest snapshot with the time that the policy allows.

    Without a snapshot, the time counts from the registration of the primary.
    """
    limit = LATE_FACTOR * compute_expected_seconds(declared)
    metadata: dict[str, float | int | str] = {"limit_seconds": limit}
    if newest is not None:
        metadata |= snapshot_metadata(newest, at=status.at)
    if status.primary is None and not status.wanted:
        return dg.AssetCheckResult(
            passed=True,
            description="the stream is stopped: no new snapshot is due",
            metadata=metadata,
        )
    since = _since(status, newest)
    age = 0.0 if since is None else max(status.at - since, 0.0)
    subject = "the newest snapshot" if newest else "no snapshot yet: the primary"
    return dg.AssetCheckResult(
        passed=age <= limit,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{subject} is {quantities.age(age)} old, the limit is {quantities.age(limit)}",
        metadata=metadata,
    )


def judge_proof(
    stream: str, newest: SnapshotRow | None, last: SnapshotRow | None, *, at: float
) -> dg.AssetCheckResult:
    """Compare the time since the last proof of any snapshot with the limit."""
    if newest is None:
        return dg.AssetCheckResult(passed=True, description="there is no snapshot to prove")
    days, summary = float("inf"), "no snapshot was proven yet"
    metadata: dict[str, float | int | str] = {"limit_seconds": PROVEN_WITHIN_DAYS * DAY_SECONDS}
    if last is not None and last.proven_at is not None:
        days = max(at - last.proven_at, 0.0) / DAY_SECONDS
        ago, took = quantities.age(days * DAY_SECONDS), quantities.seconds(last.proven_seconds)
        summary = f"{last.id} was proven {ago} ago, in {took}"
        metadata |= snapshot_metadata(last, at=at)
    passed = days <= PROVEN_WITHIN_DAYS
    hint = f"run `holdfast snapshots prove {stream}`, or turn the schedule `snapshot_proofs` on"
    return dg.AssetCheckResult(
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=summary if passed else f"{summary}: {hint}",
        metadata=metadata,
    )


def _since(status: StreamStatus, newest: SnapshotRow | None) -> float | None:
    """When the time until the next snapshot began: with the newest, or with the start of the primary."""
    times = [] if newest is None else [newest.created_at]
    if status.last_primary is not None:
        times.append(status.last_primary.registered_at)
    return max(times, default=None)


def verify_newest(project: Project, stream: str) -> dg.AssetCheckResult:
    """Read the newest snapshot in full, and record the result in the catalogue."""
    listed = project.vault(stream).list()
    if not listed:
        row = project.store.snapshots.newest(stream)
        return dg.AssetCheckResult(
            passed=row is None,
            description="there is no snapshot yet"
            if row is None
            else f"the catalogue lists {row.id}, but the object store has no snapshot",
        )
    newest = listed[0].id
    problems = catalogue.verify(project, stream, newest)
    return dg.AssetCheckResult(
        passed=not problems,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{newest} is damaged: {problems[0]}" if problems else f"{newest} verifies",
        metadata={
            "snapshot": newest,
            "epoch": listed[0].epoch,
            "snapshots": len(listed),
            "problems": dg.MetadataValue.json(problems[:SHOWN_PROBLEMS]),
        },
    )
