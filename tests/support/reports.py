"""Rows of reports, and streams with a past that reports are made of."""

from assets.reports.recoveries import Compared, Recovered
from ft_policies.costs.report import CostRow
from ft_policies.prediction.estimators import Observation
from ft_policies.prediction.steps import RecoveryStep
from ft_policies.tiers import Tier
from resources.control.records import Sample
from streaming.world import World
from tests.fakes.worlds import CLICKS, a_primary, a_wanted_stream


def a_cost_row(*, money: float = 1.2, started_hours: bool = False) -> CostRow:
    """A day half in hot standby and half in passive replication."""
    seconds = dict.fromkeys(Tier, 0.0)
    return CostRow(
        stream="clicks",
        currency="USD",
        started_hours=started_hours,
        objective_seconds=10.0,
        tier_seconds=seconds
        | {Tier.PASSIVE_STANDBY_HOT: 43_200.0, Tier.PASSIVE_REPLICATION: 43_200.0},
        switches=1,
        money=money,
        money_if_active=2.4,
        money_if_passive=0.2,
        unit_hours=24.0,
        unit_hours_if_active=96.0,
        unit_hours_if_passive=12.0,
        cpu_core_hours=3.0,
        memory_gb_hours=12.0,
        network_gb=1.5,
        instance_hours=12.0,
        requests=17_280.0,
        recoveries=2,
        misses=1,
        slowest_seconds=12.5,
    )


def a_recovery(seconds: float, *, predicted: float = 6.0) -> Compared:
    """A takeover of a hot standby, beside its prediction."""
    return Compared(
        recovered=Recovered(
            stream="clicks",
            at=100.0,
            lost_at=100.0 - seconds,
            tier=Tier.PASSIVE_STANDBY_HOT,
            seconds=seconds,
            steps={
                RecoveryStep.DETECT: Observation(seconds=1.0),
                RecoveryStep.REPLAY: Observation(seconds=seconds - 1.0),
            },
        ),
        predicted_seconds=predicted,
        predicted_steps={RecoveryStep.DETECT: 2.0, RecoveryStep.REPLAY: predicted - 2.0},
    )


def a_stream_that_runs(world: World) -> None:
    """Its primary has measured what it takes."""
    a_wanted_stream(world)
    a_primary(world, "r1")
    world.store.samples.write(
        [
            Sample(stream=CLICKS, replica="r1", name="cpu_cores", value=2.0),
            Sample(stream=CLICKS, replica="r1", name="rss_bytes", value=4 * 2.0**30),
        ]
    )


def taken_over(
    world: World, seconds: float, *, by: str = "r2", rows: float = 0.0, at: float = 0.0
) -> None:
    """What a secondary writes that has become the primary and is level; detection is 1 s of it."""
    told = {
        "t_wire_send_seconds": 0.1,
        "t_replay_seconds": max(seconds - 1.1, 0.0),
        "replay_rows": rows,
        "t_detect_seconds": 1.0,
        "recovery_seconds": seconds,
    }
    world.store.samples.write(
        [
            Sample(stream=CLICKS, replica=by, name=name, value=value, epoch=9, at=at)
            for name, value in told.items()
        ]
    )
