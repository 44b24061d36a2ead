"""How far back the epoch log and the ledger of a stream are needed, and whether its source keeps the input as long."""

from dataclasses import dataclass, replace

from holdfast.ft_policies import quantities

SHORT_MARGIN = 0.1
"""A margin is short if it is less than this share of the time that the source keeps its input."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAge:
    """The oldest input that has to be read again, and why it cannot be; empty if it can."""

    epoch: int
    file: str
    seconds: float
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInput:
    """The oldest input that recoveries and restores read again; `None` where they read none."""

    first_epoch: int
    """Epochs from this one on may be computed again by a restore."""
    recovery: InputAge | None
    restore: InputAge | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginVerdict:
    """Whether the input of recoveries and of restores is there, and stays long enough."""

    first_epoch: int
    recoverable: bool
    lasting: bool
    reason: str
    margin_seconds: float | None = None
    """How long the source keeps the oldest input of a restore yet, if that is declared."""


def judge_margin(replay: ReplayInput, *, kept_for_seconds: float | None) -> MarginVerdict:
    """Compare the oldest input that may be read again with what the source keeps."""
    recovery, restore = replay.recovery, replay.restore
    verdict = MarginVerdict(
        first_epoch=replay.first_epoch,
        recoverable=recovery is None or not recovery.fault,
        lasting=restore is None or not restore.fault,
        reason="no input has to be read again",
    )
    if recovery is not None and recovery.fault:
        reason = (
            f"a recovery reads epoch {recovery.epoch} again, but {recovery.file} {recovery.fault}"
        )
        return replace(verdict, reason=reason)
    if restore is None:
        return verdict
    if restore.fault:
        reason = (
            f"a restore may read epoch {restore.epoch} again, but {restore.file} {restore.fault}: keep input at least "
            "as long as retention.restore_window, or shorten that"
        )
        return replace(verdict, reason=reason)
    oldest = f"{restore.file} of epoch {restore.epoch} is the oldest input that may be read again, and it is there"
    if kept_for_seconds is None:
        return replace(verdict, reason=oldest)
    return _judge_age(verdict, restore, oldest, kept_for_seconds)


def _judge_age(
    verdict: MarginVerdict, restore: InputAge, oldest: str, kept_for_seconds: float
) -> MarginVerdict:
    margin = kept_for_seconds - restore.seconds
    short = margin < SHORT_MARGIN * kept_for_seconds
    hint = ": ship snapshots more often, shorten retention.restore_window, or let the source keep it longer"
    return replace(
        verdict,
        lasting=not short,
        reason=f"{oldest}; it is {quantities.age(restore.seconds)} old, and the source keeps it for {quantities.age(kept_for_seconds)}"
        + (hint if short else ""),
        margin_seconds=margin,
    )
