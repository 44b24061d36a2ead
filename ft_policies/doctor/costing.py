"""What a repair costs: the epochs that the next replica has to replay."""

from ft_policies.doctor.facts import NOTHING, Examined, SnapshotFacts
from ft_policies.doctor.findings import Cost


def replay_from(seen: Examined, snapshot: SnapshotFacts | None) -> Cost:
    """The cost of going on from a snapshot, or from epoch 0 without one; nothing is lost."""
    epoch = NOTHING if snapshot is None else snapshot.epoch
    rows = seen.rows_in_all if snapshot is None else snapshot.rows_after
    return Cost(
        epochs_replayed=max(seen.records.last_decided - epoch, 0),
        rows_replayed=rows,
        seconds=_seconds(seen, rows),
    )


def newest_before(seen: Examined, epoch: int) -> SnapshotFacts | None:
    """The snapshot from which an epoch can be computed again; `None` means epoch 0."""
    return next((one for one in seen.snapshots if one.good and one.epoch < epoch), None)


def extra_replay(seen: Examined, without: SnapshotFacts) -> Cost:
    """What a restore costs more because one snapshot cannot be used: the epochs since the one before."""
    older = next((one for one in seen.snapshots if one.good and one.epoch <= without.epoch), None)
    newest = seen.newest_good
    if newest is not None and newest.epoch >= without.epoch:
        return Cost()
    epoch = NOTHING if older is None else older.epoch
    rows = (seen.rows_in_all if older is None else older.rows_after) - without.rows_after
    return Cost(
        epochs_replayed=without.epoch - epoch, rows_replayed=rows, seconds=_seconds(seen, rows)
    )


def _seconds(seen: Examined, rows: int) -> float | None:
    if rows == 0:
        return 0.0
    return rows / seen.rows_per_second if seen.rows_per_second else None
