"""Choices of the launchpad: Dagster offers the names of an enum, so these have the values of ours as names."""

from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Tier

if TYPE_CHECKING:
    TierChoice = Tier
    ProtocolChoice = Protocol
    FaultChoice = Fault
else:

    def _choices(kind: type[StrEnum]) -> type[Enum]:
        return Enum(f"{kind.__name__}Choice", {member.value: member.value for member in kind})

    TierChoice = _choices(Tier)
    ProtocolChoice = _choices(Protocol)
    FaultChoice = _choices(Fault)
