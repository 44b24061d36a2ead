"""A stream as the review sees it, in plain numbers."""

from dataclasses import replace

from holdfast.ft_policies.costs.prices import ASSUMED_SHARES, Usage
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import Load
from holdfast.ft_policies.tiering.candidates import StreamInputs
from holdfast.ft_policies.tiers import Guarantee, Mode, Tier

_LOAD = Load(
    rows_per_second=500.0, capacity_rows_per_second=8000.0, state_bytes=30e6, epoch_seconds=2.0
)
_INPUTS = StreamInputs(
    stream="orders",
    at=1234.5,
    mode=Mode.AUTO,
    guarantee=Guarantee.PRECISE,
    objective_seconds=10.0,
    allowed=[True] * 6,
    current=Tier.ACTIVE_STANDBY,
    current_interval=0,
    since_change=1000.0,
    recent_misses=0,
    fit=RecoveryModel().fit(StepTimings(steps={})),
    load=_LOAD,
    load_ahead=_LOAD,
    snapshot_every=(5.0,),
    sync_every=(2.0,),
    ship_seconds=0.2,
    sync_seconds=0.3,
    primary=Usage(cpu_cores=1.5, memory_bytes=2e9, network_bytes_per_second=4e5, instances=1.0),
    shares=ASSUMED_SHARES,
    new_state_bytes_per_second=1e6,
    requests_per_snapshot=3.0,
    requests_per_sync=5.0,
    stored_bytes=30e6,
)


def stream_inputs(**changes: object) -> StreamInputs:
    """A stream in active standby, objective 10 s, of whose recoveries nothing was measured."""
    return replace(_INPUTS, **changes)  # type: ignore[arg-type]
