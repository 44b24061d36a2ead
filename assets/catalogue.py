"""Acting on a stream's snapshots: the vault has them, the catalogue is told what became of them."""

from resources.control.records import SnapshotState
from resources.vault.records import Pruned
from streaming.world import World


def verify(world: World, stream: str, snapshot_id: str) -> list[str]:
    """Read a snapshot in full; what is wrong with it, if anything is."""
    problems = world.vault(stream).verify(snapshot_id)
    catalogue = world.store.snapshots
    if problems:
        catalogue.mark(stream, snapshot_id, SnapshotState.DAMAGED, problems[0])
    else:
        catalogue.mark(stream, snapshot_id, SnapshotState.AVAILABLE, "")
        catalogue.verified(stream, snapshot_id)
    return problems


def prune(world: World, stream: str, *, dry_run: bool) -> Pruned:
    """Drop what the stream's retention does not keep; a dry run only says what would go."""
    policy = world.project.stream(stream).retention.policy()
    pruned = world.vault(stream).prune(policy, now=world.store.now(), dry_run=dry_run)
    if not dry_run:
        reasons = {one.snapshot.id: "; ".join(one.reasons) for one in pruned.verdicts}
        for dropped in pruned.dropped:
            world.store.snapshots.mark(stream, dropped, SnapshotState.DROPPED, reasons[dropped])
    return pruned
