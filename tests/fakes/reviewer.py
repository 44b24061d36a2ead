"""A reviewer that has come to its decisions already."""

from collections.abc import Sequence

from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiering.decision import Decision, WhatIf
from holdfast.resources.project import Project
from tests.builders.tiering import MONEY, SECONDS


def simulated_what_if(project: Project, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
    """The cheapest tier for each objective; only active replication recovers at once."""
    project.config.stream(stream)
    curve = []
    for objective in objectives:
        tier = min((tier for tier in TIERS if SECONDS[tier] <= objective), key=MONEY.__getitem__)
        curve.append(
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
    return curve


class SimulatedReviewer:
    """A reviewer that has come to its decisions already."""

    def __init__(self, decisions: list[Decision]) -> None:
        self._decisions = decisions

    def decide_now(self, project: Project, stream: str) -> Decision:
        return self._decisions[0]

    def what_if(self, project: Project, stream: str, objectives: Sequence[float]) -> list[WhatIf]:
        return simulated_what_if(project, stream, objectives)
