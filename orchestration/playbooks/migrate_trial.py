"""The trial before a migration: the target's query goes on from a snapshot for one epoch, and sends nothing.

So Spark's own rules tell whether the state fits, before anything of the stream is touched.
"""

import shutil

from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.observation.status import observe
from holdfast.orchestration.playbooks.launch import Recomputed, recompute, spec_of
from holdfast.orchestration.playbooks.lifecycle import snapshot_now
from holdfast.orchestration.playbooks.prove import newest_provable
from holdfast.orchestration.playbooks.waiting import wait_until
from holdfast.resources.control_store.records import Slot, SnapshotRow
from holdfast.resources.project import Project

POLL_SECONDS = 0.2
SLACK_SECONDS = 60.0


def require_compatible_state(
    world: Project, target: StreamDeclaration, run: str, *, may_differ: bool, may_ask: bool
) -> None:
    """Refuse a target that cannot go on from the stream's state, or puts out something else.

    Where there is no snapshot to try it on, the stream is asked for one, if it `may_ask`. A stream that has
    committed nothing has no state that could be refused.
    """
    row = _tried_on(world, target, may_ask=may_ask)
    if row is None:
        return
    found = _recomputed(world, target, run, row)
    entry = world.store.ledger.get(target.name, row.epoch + 1)
    if entry is not None and entry.digest != found.digest and not may_differ:
        raise PermanentError(
            f"{target.name} would put out something else: epoch {entry.epoch} has {found.rows} rows "
            f"({found.digest}), and {entry.rows} ({entry.digest}) were committed",
            hint="if that is what you want, --may-differ (`may_differ: true` for the job)",
        )


def _tried_on(world: Project, target: StreamDeclaration, *, may_ask: bool) -> SnapshotRow | None:
    """The newest snapshot after which an epoch was committed."""
    row = _newest(world, target.name)
    has_state = world.store.ledger.last(target.name) is not None
    if row is not None or not has_state or not may_ask:
        return row
    if observe(world, target.name).primary is None:
        return None  # no replica can ship one, and nothing runs that could be disturbed
    snapshot_now(world, target.name)
    return _await_snapshot(world, target)


def _await_snapshot(world: Project, target: StreamDeclaration) -> SnapshotRow:
    patience = SLACK_SECONDS + 2 * max(target.epoch.seconds or 0.0, target.epoch.silence)
    wait_until(
        lambda: _newest(world, target.name) is not None,
        patience_seconds=patience,
        poll_seconds=POLL_SECONDS,
    )
    row = _newest(world, target.name)
    if row is None:
        raise TransientError(
            f"{target.name} has no snapshot to try the target on: none came with a later epoch",
            hint=f"`holdfast doctor {target.name}` tells what is wrong with its snapshots",
        )
    return row


def _newest(world: Project, stream: str) -> SnapshotRow | None:
    return newest_provable(world, stream, world.store.snapshots.of(stream))


def _recomputed(
    world: Project, target: StreamDeclaration, run: str, row: SnapshotRow
) -> Recomputed:
    """What the target's query makes of the epoch after a snapshot."""
    folder = world.config.home / "drills" / f"{target.name}-{run}"
    checkpoint, vault = folder / "checkpoint", world.vault(target.name)
    try:
        vault.restore(vault.manifest(row.id), checkpoint, durable=False)
        spec = spec_of(world.config, target, Slot.SECONDARY, folder.name, folder)
        return recompute(world.config, spec, checkpoint, row.epoch + 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
