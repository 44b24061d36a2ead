"""What fault tolerance costs, tier by tier: in the thesis' weights, and in money.

The last axis of every array is the tier, in the order of `TIERS`; the leading axes are the caller's:
none, intervals, streams, or streams and intervals. The fields of a `Usage` have the tier's axis (a
length of 1 will do); what belongs to a stream or an interval (`state_bytes`, `sync_every`, …) has the
leading axes only. An axis on which a cost does not depend has length 1, or is left out if it is a leading one:
the simulator evaluates costs at every tick, so arrays stay small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from holdfast.ft_policies.prediction.steps import HAS_SECONDARY, TIERS, FloatArray, FloatLike
from holdfast.ft_policies.tiers import SECONDARY, Tier

GB = 2.0**30
SECONDS_OF_AN_HOUR = 3600.0
HOURS_OF_A_MONTH = 730.0

_DEPLOYED = HAS_SECONDARY.astype(float)
_RECEIVES = np.array([float(SECONDARY[tier].receive) for tier in TIERS])
_PROCESSES = np.array([float(SECONDARY[tier].process) for tier in TIERS])
_SENDS = np.array([float(SECONDARY[tier].send) for tier in TIERS])
_SYNCS = np.array([float(SECONDARY[tier].sync) for tier in TIERS])
_ONLY_DEPLOYED = _DEPLOYED - _PROCESSES - _SYNCS
_RESTORES = 1.0 - _PROCESSES - _SYNCS


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The use of resources while nothing fails: of a primary, or of what is added to one."""

    cpu_cores: FloatLike = 0.0
    memory_bytes: FloatLike = 0.0
    network_bytes_per_second: FloatLike = 0.0
    instances: FloatLike = 0.0
    puts_per_second: FloatLike = 0.0
    gets_per_second: FloatLike = 0.0
    stored_bytes: FloatLike = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each resource counts, in units of what the primary takes of it."""

    cpu: float
    memory: float
    network: float
    instances: float


ALL_COSTS = Weights(cpu=1.0, memory=1.0, network=1.0, instances=1.0)
EC2 = Weights(cpu=0.0, memory=0.0, network=0.0, instances=1.0)
WEIGHTS: Mapping[str, Weights] = {"all_costs": ALL_COSTS, "ec2": EC2}


def weigh_cost(overhead: Usage, primary: Usage, weights: Weights) -> FloatArray:
    """The cost of each tier in units of the primary (F48): sum of weight * overhead / use.

    What the primary does not use at all offers no unit to count in, and does not count.
    """
    terms = (
        (weights.cpu, overhead.cpu_cores, primary.cpu_cores),
        (weights.memory, overhead.memory_bytes, primary.memory_bytes),
        (weights.network, overhead.network_bytes_per_second, primary.network_bytes_per_second),
        (weights.instances, overhead.instances, primary.instances),
    )
    cost = np.zeros(len(TIERS))
    for weight, added, used in terms:
        if weight:
            cost = cost + added * _per_unit(weight, used)
    return cost


def _per_unit(weight: float, used: FloatLike) -> FloatArray:
    use = np.asarray(used, dtype=np.float64)
    return np.divide(weight, use, out=np.zeros_like(use), where=use > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What an offer charges, in one currency; a GB is 2**30 bytes, a month 730 hours."""

    currency: str
    instance_hour: float
    put_per_thousand: float
    get_per_thousand: float
    storage_gb_month: float
    traffic_gb: float
    cpu_core_hour: float = 0.0
    memory_gb_hour: float = 0.0
    started_hours: bool = False

    def per_hour(self, usage: Usage) -> FloatArray:
        """Money per hour for as long as nothing changes; `billing` knows about started hours."""
        requests = (
            usage.puts_per_second * self.put_per_thousand
            + usage.gets_per_second * self.get_per_thousand
        )
        traffic = usage.network_bytes_per_second * (self.traffic_gb / GB)
        return np.asarray(
            usage.instances * self.instance_hour
            + usage.cpu_cores * self.cpu_core_hour
            + usage.memory_bytes * (self.memory_gb_hour / GB)
            + usage.stored_bytes * (self.storage_gb_month / GB / HOURS_OF_A_MONTH)
            + (requests / 1000.0 + traffic) * SECONDS_OF_AN_HOUR
        )


def thesis_overhead(
    primary: Usage,
    *,
    state_bytes: FloatLike,
    sync_every: FloatLike,
    snapshot_every: FloatLike,
    queue_bytes: FloatLike,
    receive_share: float = 0.5,
    deserialise_share: float = 0.25,
    code_bytes: float = 0.0,
) -> Usage:
    """What StreamMine3G's tiers add: the whole state at each sync to the peer, or snapshot to a file.

    `receive_share` is how much of the primary's traffic is input, `deserialise_share` how much of its
    CPU a passive standby needs. The thesis prints neither: both are ours.
    """
    state, queue = _with_tiers(state_bytes), _with_tiers(queue_bytes)
    snapshots = _RESTORES / _with_tiers(snapshot_every)
    traffic = _RECEIVES * receive_share + _SENDS * (1.0 - receive_share)
    return Usage(
        cpu_cores=primary.cpu_cores * (_PROCESSES + _SYNCS * deserialise_share),
        memory_bytes=primary.memory_bytes * _PROCESSES
        + (state * _SYNCS + queue * (_SYNCS * _RECEIVES) + code_bytes * _ONLY_DEPLOYED),
        network_bytes_per_second=primary.network_bytes_per_second * traffic
        + state * (_SYNCS / _with_tiers(sync_every) + snapshots),
        instances=primary.instances * _DEPLOYED,
        puts_per_second=snapshots,
        stored_bytes=state * _RESTORES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TierShares:
    """What a secondary takes in each tier, as a share of what the primary takes.

    Without the traffic of snapshots and syncs, which goes by the state and not by the load.
    """

    cpu: FloatArray
    memory: FloatArray
    network: FloatArray

    def with_measured(
        self, tier: Tier, *, cpu: float, memory: float, network: float
    ) -> "TierShares":
        """The same shares, with measured values for one tier."""
        is_tier = np.array([other is tier for other in TIERS])
        return replace(
            self,
            cpu=np.where(is_tier, cpu, self.cpu),
            memory=np.where(is_tier, memory, self.memory),
            network=np.where(is_tier, network, self.network),
        )


# For tiers of which a stream has no samples yet: CPU and memory as the failover benchmark has measured them
# (benchmarks/results/failover.json, rounded), network by what a secondary of the tier receives and sends.
ASSUMED_SHARES = TierShares(
    cpu=np.array([1.0, 1.0, 0.45, 0.05, 0.03, 0.0]),
    memory=np.array([1.0, 1.0, 0.9, 0.83, 0.8, 0.0]),
    network=np.array([1.0, 0.5, 0.5, 0.0, 0.0, 0.0]),
)


def compute_overhead(
    primary: Usage,
    shares: TierShares,
    *,
    new_state_bytes_per_second: FloatLike,
    sync_every: FloatLike,
    snapshot_every: FloatLike,
    requests_per_snapshot: FloatLike,
    requests_per_sync: FloatLike,
    stored_bytes: FloatLike = 0.0,
) -> Usage:
    """What Holdfast's tiers add: a secondary, snapshots in every tier, and syncs.

    For a sync the primary ships a snapshot, which the secondary fetches: so the shorter of the two
    intervals sets the pace, and new state is transferred once, or twice where it is synced. Shipping runs
    in the primary, so its CPU is part of what was measured there.
    """
    shipped, synced = _with_tiers(snapshot_every), _with_tiers(sync_every)
    per_second = 1.0 / np.where(_SYNCS > 0, np.minimum(shipped, synced), shipped)
    return Usage(
        cpu_cores=primary.cpu_cores * shares.cpu,
        memory_bytes=primary.memory_bytes * shares.memory,
        network_bytes_per_second=primary.network_bytes_per_second * shares.network
        + _with_tiers(new_state_bytes_per_second) * (1.0 + _SYNCS),
        instances=primary.instances * _DEPLOYED,
        puts_per_second=per_second * _with_tiers(requests_per_snapshot),
        gets_per_second=per_second * _SYNCS * _with_tiers(requests_per_sync),
        stored_bytes=_with_tiers(stored_bytes),
    )


def _with_tiers(quantity: FloatLike) -> FloatArray:
    """Add an axis of length 1 for the tiers."""
    return np.asarray(quantity, dtype=np.float64)[..., np.newaxis]
