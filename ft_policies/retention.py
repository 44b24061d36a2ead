"""How far back the epoch log and the ledger of a stream are needed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """What may still need old epochs of a stream; `None` where there is no such thing."""

    first_epoch: int
    """The oldest epoch that is kept now."""
    last_entered: int | None
    first_in_window: int | None
    """The oldest epoch that was decided within the restore window; `None` if none was."""
    oldest_snapshot: int | None
    """The epoch of the oldest snapshot that retention keeps."""
    replica_epochs: tuple[int, ...] = ()
    """The epochs that the live replicas have reached, as far as they report one."""
    pending_restore: int | None = None
    """The epoch of a restore that is not finished."""


def first_epoch_to_keep(facts: EpochFacts) -> int:
    """The oldest epoch to keep: all before it may be deleted.

    A recovery or a restore reads the epoch of its snapshot (for the position) and all later ones. Without a
    snapshot it begins at epoch 0, so everything is kept.
    """
    if facts.oldest_snapshot is None or facts.last_entered is None:
        return facts.first_epoch
    needed = [facts.oldest_snapshot, facts.last_entered, *facts.replica_epochs]
    optional = (facts.first_in_window, facts.pending_restore)
    needed += [epoch for epoch in optional if epoch is not None]
    return max(min(needed), facts.first_epoch)
