"""Giving up the state of a stream whose snapshots are lost: its own step, since only the operator can decide it."""

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.project import Project
from holdfast.streaming.state.lost_state import close_question


def give_up_state(project: Project, stream: str, *, dry_run: bool = False) -> int:
    """Let a stopped stream continue with empty state; returns how many rows its state had seen.

    `PermanentError` if a snapshot can be restored, or if all epochs are there. It may be repeated.
    """
    store = project.store
    project.config.stream(stream)
    snapshot, first = store.snapshots.newest(stream), store.retention.floor(stream).first_epoch
    if snapshot is not None:
        raise PermanentError(
            f"the state of {stream} is not given up: the catalogue has the snapshot {snapshot.id}",
            hint=f"run `holdfast start {stream}`; if it is lost, `holdfast doctor {stream} --repair mark_snapshots` first",
        )
    if first == 0:
        raise PermanentError(
            f"the state of {stream} is not given up: no epoch is pruned, so it can be computed again",
            hint=f"run `holdfast start {stream}`",
        )
    gap = store.gaps.give_up_state(stream, dry_run=dry_run)
    if dry_run:
        return gap.rows
    close_question(
        store,
        stream,
        f"the operator gave up the state of {gap.rows} rows up to epoch {gap.last_entered}",
    )
    return gap.rows
