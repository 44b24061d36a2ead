"""What the models say before a kill of what it will take, and what it took."""

from math import nan

from ft_policies.prediction import RecoveryModel, StateAges
from ft_policies.recovery_model import TIERS
from ft_policies.thesis_model import ThesisModel
from ft_policies.tiers import Tier
from orchestration.reviewed import Reviewed, gather
from streaming.measuring import measure
from streaming.observing import observe
from streaming.world import World


def foretold(world: World, stream: str, tier: Tier) -> dict[str, float]:
    """Seconds of a recovery if the primary failed now, by each model; infinite if it cannot tell."""
    row = world.store.streams.get(stream)
    assert row is not None
    [one] = gather(world, [row])
    measured = one.measured
    since = float(measured.load.rows_per_second) * measured.snapshot_age_seconds
    found = {
        "ours": RecoveryModel().predict_at(
            measured.histories, measured.load, _ages(world, stream, one)
        ),
        "thesis": ThesisModel(count_detection=True).predict(
            measured.histories, measured.load, rows_since_snapshot=since
        ),
    }
    return {name: float(one.seconds[TIERS.index(tier)]) for name, one in found.items()}


def recovered_in(world: World, stream: str, *, since_at: float) -> float:
    """Seconds from the last sign of life until the stream was level, as it was measured itself."""
    measured = measure(world.store, [world.project.stream(stream)])[stream]
    return next((one.seconds for one in measured.recoveries if one.at >= since_at), nan)


def _ages(world: World, stream: str, one: Reviewed) -> StateAges:
    """How far the newest snapshot and the secondary's state are behind what is decided."""
    seen, newest = observe(world, stream), world.store.snapshots.newest(stream)
    decided = -1 if seen.epoch is None else seen.epoch.epoch
    epoch_seconds = float(one.measured.load.epoch_seconds)

    def age(epoch: int | None) -> float:
        return (decided - (-1 if epoch is None else epoch)) * epoch_seconds

    secondary = seen.secondary
    return StateAges(
        snapshot=age(None if newest is None else newest.epoch),
        sync=age(None if secondary is None else secondary.epoch),
    )
