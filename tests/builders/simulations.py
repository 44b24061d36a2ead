"""Short simulations, and what can be seen of them tick by tick."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.ft_policies.costs.prices import Prices
from holdfast.ft_policies.simulator.engine import Scenario, SimulationProgress, simulate
from holdfast.ft_policies.simulator.presets import MEASURED, THESIS
from holdfast.ft_policies.simulator.results import Outcome
from holdfast.ft_policies.simulator.state_size import FloatArray, SlidingWindow
from holdfast.ft_policies.simulator.system import System
from holdfast.ft_policies.simulator.traces import Block, Generated, Recorded, Shape

ON_DEMAND = Prices(
    currency="USD",
    instance_hour=0.1,
    put_per_thousand=0.005,
    get_per_thousand=0.0004,
    storage_gb_month=0.02,
    traffic_gb=0.01,
)
VALIDATION_SECONDS = 200.0


@dataclass(frozen=True)
class Given:
    """A load of which every tick of every stream is given: both (ticks, streams)."""

    rates: FloatArray
    states: FloatArray

    @property
    def streams(self) -> int:
        return self.rates.shape[1]

    def blocks(self, ticks: int, tick_seconds: float) -> Iterator[Block]:
        yield Block(rows_per_second=self.rates[:ticks], state_bytes=self.states[:ticks])


def steady_trace(rate: float, state: float, streams: int = 1) -> Recorded:
    """A load that never changes."""
    return Recorded(
        seconds=np.array([0.0]),
        rows_per_second=np.array([rate]),
        state_bytes=np.array([state]),
        streams=streams,
    )


def run_thesis(*objectives: float, **changes: object) -> tuple[Outcome, ...]:
    """StreamMine3G for 200 s: 20 MB of state, then 90 MB."""
    return simulate(validation_scenario(*objectives, **changes))


def validation_scenario(*objectives: float, **changes: object) -> Scenario:
    """The thesis' own load, and what differs from its usual settings."""
    usual = Scenario(
        system=THESIS,
        trace=Generated(
            shape=Shape.STEP, rows_per_second=THESIS.usual_rows_per_second, state=THESIS.state
        ),
        seconds=VALIDATION_SECONDS,
        objectives=objectives,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def erratic_scenario(
    system: System = MEASURED, *, hours: float = 3.0, streams: int = 100
) -> Scenario:
    """Streams whose state is anything from kilobytes to hundreds of megabytes, and other in seconds."""
    return Scenario(
        system=system,
        trace=Generated(
            shape=Shape.ERRATIC,
            rows_per_second=system.usual_rows_per_second,
            state=SlidingWindow(window_seconds=10.0, bytes_per_row=1500.0),
            streams=streams,
            seed=3,
        ),
        seconds=hours * 3600.0,
        objectives=(9.0,),
        rank_by=ON_DEMAND,
        failures_per_day=400.0,
        seed=3,
    )


def tiers_by_tick(scenario: Scenario) -> NDArray[np.intp]:
    """The tiers over time, (ticks, objectives, streams)."""
    ticks: list[SimulationProgress] = []
    simulate(scenario, ticks.append)
    return np.concatenate([tick.tiers for tick in ticks])
