"""The six fault-tolerance tiers and the switches of a replica."""

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """What a stream pays for, from the fastest recovery to the cheapest."""

    ACTIVE_REPLICATION = "active_replication"
    ACTIVE_STANDBY = "active_standby"
    PASSIVE_STANDBY_HOT = "passive_standby_hot"
    PASSIVE_STANDBY_COLD = "passive_standby_cold"
    DEPLOYED = "deployed"
    PASSIVE_REPLICATION = "passive_replication"


class Guarantee(StrEnum):
    """What a recovery may cost in data."""

    PRECISE = "precise"
    ROLLBACK = "rollback"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What a replica has on."""

    deploy: bool = False
    receive: bool = False
    process: bool = False
    send: bool = False
    sync: bool = False


PRIMARY = Switches(deploy=True, receive=True, process=True, send=True)
OFF = Switches()
