"""Decisions and curves as a review would give them, without the review."""

from collections.abc import Sequence

from holdfast.ft_policies.prediction.steps import GOES_THROUGH, STEPS, TIERS, Load
from holdfast.ft_policies.tiering.controller import Why
from holdfast.ft_policies.tiering.decision import Decision, TierOption, WhatIf
from holdfast.ft_policies.tiers import Guarantee, Mode, Tier
from holdfast.resources.control_store.records import DecisionRow
from holdfast.resources.project import Project

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


def simulated_what_if(world: Project, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
    """The cheapest of the tiers above; only active replication recovers at once."""
    world.config.stream(stream)
    found = []
    for objective in objectives:
        tier = min((one for one in TIERS if SECONDS[one] <= objective), key=lambda one: MONEY[one])
        found.append(
            WhatIf(
                objective_seconds=objective,
                tier=tier,
                seconds=SECONDS[tier],
                money_per_hour=MONEY[tier],
                weighted=10 * MONEY[tier],
                holds=True,
                snapshot_every=10.0,
                sync_every=5.0,
            )
        )
    return found


class SimulatedReviewer:
    """A reviewer that has come to its decisions already."""

    def __init__(self, decisions: list[Decision]) -> None:
        self._decisions = decisions

    def decide_now(self, world: Project, stream: str) -> Decision:
        return self._decisions[0]

    def what_if(self, world: Project, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
        return simulated_what_if(world, stream, objectives)


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
