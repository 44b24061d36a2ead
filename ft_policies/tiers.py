"""The six fault-tolerance tiers and the switches of a replica."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType


class Tier(StrEnum):
    """What a stream pays for, from the fastest recovery to the cheapest."""

    ACTIVE_REPLICATION = "active_replication"
    ACTIVE_STANDBY = "active_standby"
    PASSIVE_STANDBY_HOT = "passive_standby_hot"
    PASSIVE_STANDBY_COLD = "passive_standby_cold"
    DEPLOYED = "deployed"
    PASSIVE_REPLICATION = "passive_replication"

    @property
    def strength(self) -> int:
        """How much of a recovery is done beforehand: 0 is nothing, 5 everything."""
        return _STRENGTHS[self]


_STRENGTHS = {tier: strength for strength, tier in enumerate(reversed(Tier))}


class Guarantee(StrEnum):
    """What a recovery may cost in data."""

    PRECISE = "precise"
    ROLLBACK = "rollback"
    GAP = "gap"


class Mode(StrEnum):
    """What happens with a decision about the tier."""

    AUTO = "auto"
    """It is carried out."""
    ADVISE = "advise"
    """It is only shown."""
    PINNED = "pinned"
    """It is only shown: the declaration names the tier."""


class Switch(StrEnum):
    """One thing that a replica does or does not do."""

    DEPLOY = "deploy"
    RECEIVE = "receive"
    PROCESS = "process"
    SEND = "send"
    SYNC = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """The switches that a replica has on."""

    deploy: bool = False
    receive: bool = False
    process: bool = False
    send: bool = False
    sync: bool = False

    def on(self) -> frozenset[Switch]:
        return frozenset(switch for switch in Switch if getattr(self, switch))

    def turn(self, switch: Switch, on: bool) -> "Switches":  # noqa: FBT001 (that is the verb)
        """The same switches, with one turned on or off."""
        return replace(self, **{switch.value: on})


PRIMARY = Switches(deploy=True, receive=True, process=True, send=True)
OFF = Switches()

SECONDARY: Mapping[Tier, Switches] = MappingProxyType(
    {
        Tier.ACTIVE_REPLICATION: Switches(deploy=True, receive=True, process=True, send=True),
        Tier.ACTIVE_STANDBY: Switches(deploy=True, receive=True, process=True),
        Tier.PASSIVE_STANDBY_HOT: Switches(deploy=True, receive=True, sync=True),
        Tier.PASSIVE_STANDBY_COLD: Switches(deploy=True, sync=True),
        Tier.DEPLOYED: Switches(deploy=True),
        Tier.PASSIVE_REPLICATION: OFF,
    }
)


def covered_tier(switches: Switches) -> Tier:
    """The strongest tier that a secondary with these switches covers."""
    return next(tier for tier in Tier if SECONDARY[tier].on() <= switches.on())


# State comes before the input that follows it, output after the processing that produces it.
ON_ORDER = (Switch.DEPLOY, Switch.SYNC, Switch.RECEIVE, Switch.PROCESS, Switch.SEND)
OFF_ORDER = (Switch.SEND, Switch.PROCESS, Switch.RECEIVE, Switch.SYNC, Switch.DEPLOY)


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """One switch to turn on or off."""

    switch: Switch
    on: bool

    def __str__(self) -> str:
        return f"{self.switch} {'on' if self.on else 'off'}"


def switch_changes(now: Switches, wanted: Switches) -> tuple[SwitchChange, ...]:
    """The changes that lead from the present switches to the wanted ones, in a safe order."""
    missing, surplus = wanted.on() - now.on(), now.on() - wanted.on()
    turned_on = [SwitchChange(switch, on=True) for switch in ON_ORDER if switch in missing]
    turned_off = [SwitchChange(switch, on=False) for switch in OFF_ORDER if switch in surplus]
    return (*turned_on, *turned_off)
