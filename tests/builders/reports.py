"""Rows of reports, and streams with a past that reports are made of."""

from collections.abc import Sequence

import numpy as np

from holdfast.ft_policies.costs.prices import Prices, Usage
from holdfast.ft_policies.costs.report import CostRow, StreamDay, TierCosts, cost_row
from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.prediction.estimators import Observation
from holdfast.ft_policies.prediction.past import PastPrediction, PastRecovery
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.recoveries import recovery_figures
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from tests.builders.streams import CLICKS, a_primary, a_wanted_stream

_HOUR = 3600.0
# In the order of the tiers; the snapshots of passive_replication cost something, too.
_OVERHEAD = Usage(
    cpu_cores=np.array([1.0, 1.0, 0.25, 0.25, 0.1, 0.0]),
    memory_bytes=np.array([1.0, 1.0, 0.5, 0.5, 0.5, 0.0]) * 2**30,
    network_bytes_per_second=np.array([4.0, 3.0, 6.0, 3.0, 1.0, 1.0]) * 2**30 / _HOUR,
    instances=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
    puts_per_second=np.array([0.1]),
)
_UNITS = np.array([4.0, 3.0, 2.0, 1.5, 1.0, 0.5])


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


def a_recovery(seconds: float, *, predicted: float = 6.0) -> PastPrediction:
    """A takeover of a hot standby, beside its prediction."""
    return PastPrediction(
        recovered=PastRecovery(
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
        seconds=predicted,
        steps={RecoveryStep.DETECT: 2.0, RecoveryStep.REPLAY: predicted - 2.0},
    )


def a_running_stream(project: Project) -> None:
    """Its primary has measured what it takes."""
    a_wanted_stream(project)
    a_primary(project, "r1")
    project.store.samples.write(
        [
            Sample(stream=CLICKS, replica="r1", name=SampleName.CPU_CORES, value=2.0),
            Sample(stream=CLICKS, replica="r1", name=SampleName.RSS_BYTES, value=4 * 2.0**30),
        ]
    )


def record_takeover(
    project: Project, seconds: float, *, by: str = "r2", rows: float = 0.0, at: float = 0.0
) -> None:
    """What a secondary writes that has become the primary and has caught up; detection is 1 s of it."""
    cells = {
        SampleName.WIRE_SEND_SECONDS: 0.1,
        SampleName.REPLAY_SECONDS: max(seconds - 1.1, 0.0),
        SampleName.REPLAY_ROWS: rows,
        SampleName.DETECT_SECONDS: 1.0,
        SampleName.RECOVERY_SECONDS: seconds,
    }
    project.store.samples.write(
        [
            Sample(stream=CLICKS, replica=by, name=name, value=value, epoch=9, at=at)
            for name, value in cells.items()
        ]
    )


def record_outage(
    project: Project, seconds: float, *, detect_seconds: float = 0.0, stream: str = CLICKS
) -> None:
    """The incident of a primary that was lost, closed with its recovery time."""
    detail = {SampleName.DETECT_SECONDS.value: detect_seconds}
    key = f"{stream}/{len(project.store.incidents.of(stream, open_only=False))}"
    incident = project.store.incidents.open(
        stream=stream, key=key, kind=IncidentKind.RECOVERY, detail=detail
    )
    project.store.incidents.close(
        incident.id, "recovered", figures=recovery_figures(seconds, objective_seconds=None)
    )


def _prices(*, started_hours: bool = False) -> Prices:
    return Prices(
        currency="USD",
        instance_hour=1.0,
        put_per_thousand=0.01,
        get_per_thousand=0.0,
        storage_gb_month=0.0,
        traffic_gb=0.1,
        started_hours=started_hours,
    )


def a_day(
    *spans: tuple[Tier, float, float],
    recoveries: Sequence[float] = (),
    started_hours: bool = False,
    hours: tuple[float, float] = (0.0, 24.0),
) -> CostRow:
    """A row of the cost report, counted from spans of tiers in hours."""
    return cost_row(
        StreamDay(
            stream="clicks",
            since=hours[0] * _HOUR,
            until=hours[1] * _HOUR,
            spans=[
                TierSpan(tier=tier, from_at=start * _HOUR, to_at=end * _HOUR)
                for tier, start, end in spans
            ],
            switches=1,
            costs=TierCosts(
                overhead=_OVERHEAD, units=_UNITS, prices=_prices(started_hours=started_hours)
            ),
            objective_seconds=10.0,
            recoveries=recoveries,
        )
    )
