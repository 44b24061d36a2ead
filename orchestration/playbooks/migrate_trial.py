"""The trial before a migration: the query of the target computes one epoch from a snapshot, and sends nothing.

So Spark's own rules decide whether the state is compatible, before anything of the stream is changed.
"""

import shutil

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.launch import build_spec
from holdfast.orchestration.playbooks.lifecycle import snapshot_now
from holdfast.orchestration.playbooks.recompute import (
    Recomputed,
    find_newest_provable,
    recompute,
)
from holdfast.resources.clock import wait_until
from holdfast.resources.control_store.records import Slot, SnapshotRow
from holdfast.resources.project import Project

POLL_SECONDS = 0.2
SLACK_SECONDS = 60.0


def require_compatible_state(
    project: Project,
    target: StreamDeclaration,
    run: str,
    *,
    may_differ: bool,
    may_request_snapshot: bool,
) -> None:
    """Refuse a target that cannot continue from the state of the stream, or computes another output.

    Without a snapshot for the trial one is requested, if it `may_request_snapshot`. A stream that has
    committed nothing has no state that could be incompatible.
    """
    row = _find_snapshot(project, target, may_request_snapshot=may_request_snapshot)
    if row is None:
        return
    computed = _recompute(project, target, run, row)
    entry = project.store.ledger.get(target.name, row.epoch + 1)
    if entry is not None and entry.digest != computed.digest and not may_differ:
        raise PermanentError(
            f"{target.name} would compute another output: epoch {entry.epoch} has {computed.rows} rows "
            f"({computed.digest}), but {entry.rows} rows ({entry.digest}) were committed",
            hint="migrate with --may-differ (`may_differ: true` for the job) if that is intended",
        )


def _find_snapshot(
    project: Project, target: StreamDeclaration, *, may_request_snapshot: bool
) -> SnapshotRow | None:
    """The newest snapshot after which an epoch was committed; it is requested if there is none."""
    row = _newest(project, target.name)
    has_state = project.store.ledger.last(target.name) is not None
    if row is not None or not has_state or not may_request_snapshot:
        return row
    if observe_stream(project, target.name).primary is None:
        return None  # no replica could ship one, and none runs that a migration could disturb
    snapshot_now(project, target.name)
    return _await_snapshot(project, target)


def _await_snapshot(project: Project, target: StreamDeclaration) -> SnapshotRow:
    patience = SLACK_SECONDS + 2 * max(target.epoch.seconds or 0.0, target.epoch.silence)
    wait_until(
        lambda: _newest(project, target.name) is not None,
        clock=project.clock,
        patience_seconds=patience,
        poll_seconds=POLL_SECONDS,
    )
    row = _newest(project, target.name)
    if row is None:
        raise TransientError(
            f"the target of {target.name} cannot be tried: no snapshot with a later epoch within {patience:.0f} s",
            hint=f"run `holdfast doctor {target.name}` to examine its snapshots",
        )
    return row


def _newest(project: Project, stream: str) -> SnapshotRow | None:
    return find_newest_provable(project, stream, project.store.snapshots.of(stream))


def _recompute(
    project: Project, target: StreamDeclaration, run: str, row: SnapshotRow
) -> Recomputed:
    """Compute the epoch after a snapshot with the query of the target."""
    folder = project.config.home / "drills" / f"{target.name}-{run}"
    checkpoint, vault = folder / "checkpoint", project.vault(target.name)
    try:
        vault.restore(vault.manifest(row.id), checkpoint, durable=False)
        spec = build_spec(project.config, target, Slot.SECONDARY, folder.name, folder)
        return recompute(project, spec, checkpoint, row.epoch + 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
