"""A stream as the review sees it, in plain numbers."""

from dataclasses import replace

from holdfast.ft_policies.costs.prices import ASSUMED_SHARES, Usage
from holdfast.ft_policies.prediction.calibration import Calibration
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import GOES_THROUGH, STEPS, TIERS, Load
from holdfast.ft_policies.tiering.candidates import StreamInputs
from holdfast.ft_policies.tiering.controller import Why
from holdfast.ft_policies.tiering.decision import Decision, TierOption
from holdfast.ft_policies.tiers import Guarantee, Mode, Tier
from holdfast.resources.control_store.records import DecisionRow

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
    fit=replace(
        RecoveryModel().fit(StepTimings(steps={})), calibration=Calibration.of_typical_times()
    ),
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


SECONDS = dict(zip(TIERS, (0.0, 2.0, 6.2, 8.0, 21.0, 38.0), strict=True))
MONEY = dict(zip(TIERS, (0.2, 0.15, 0.11, 0.1, 0.099, 0.001), strict=True))
REASON = "passive_standby_hot is the cheapest that recovers within 10 s (predicted 6.2 s)"


def a_decision(
    stream: str = "clicks",
    *,
    at: float = 1_000.0,
    current: Tier = Tier.ACTIVE_REPLICATION,
    chosen: Tier = Tier.PASSIVE_STANDBY_HOT,
    acts: bool = True,
) -> Decision:
    """Hot standby is the cheapest of the tiers that recover within 10 s."""
    return Decision(
        stream=stream,
        at=at,
        mode=Mode.AUTO if acts else Mode.ADVISE,
        objective_seconds=10.0,
        guarantee=Guarantee.PRECISE,
        load=Load(
            rows_per_second=1_200.0,
            capacity_rows_per_second=20_000.0,
            state_bytes=12_000_000.0,
            epoch_seconds=1.0,
        ),
        currency="USD",
        tiers=tuple(_option(tier, chosen) for tier in TIERS),
        current=current,
        chosen=chosen,
        snapshot_every=10.0,
        sync_every=5.0,
        acts=acts,
        why=Why.SAVES,
        reason=REASON,
    )


def a_decision_row(decided: Decision, *, run: str = "run-1") -> DecisionRow:
    """The same as the control store keeps it."""
    return DecisionRow(
        stream=decided.stream,
        at=decided.at,
        mode=decided.mode,
        chosen=decided.chosen,
        snapshot_every=decided.snapshot_every,
        sync_every=decided.sync_every,
        reason=decided.reason,
        record=decided.to_json(),
        run=run,
    )


def _option(tier: Tier, chosen: Tier) -> TierOption:
    steps = [step for step, has in zip(STEPS, GOES_THROUGH[TIERS.index(tier)], strict=True) if has]
    late = SECONDS[tier] > 10.0
    return TierOption(
        tier=tier,
        snapshot_every=10.0,
        sync_every=5.0,
        seconds=SECONDS[tier],
        seconds_ahead=SECONDS[tier],
        steps={step: SECONDS[tier] / len(steps) for step in steps},
        cost=MONEY[tier],
        money_per_hour=MONEY[tier],
        rejected=None if tier is chosen else "too slow" if late else "costs more",
    )
