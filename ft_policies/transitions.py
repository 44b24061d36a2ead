"""From one set of switches to another, make before break.

First everything is turned on that the new tier needs, then off what it does not need. While turns
are on the way up the set contains the old tier's, on the way down the new tier's: so at every moment
it covers the weaker of the two at least. The order is fixed, so a plan that was cut short and is
made again from what is observed is the rest of the same plan.
"""

from dataclasses import dataclass

from ft_policies.tiers import Switch, Switches

# A state before the input that it needs, an output after the processing that makes it.
ON_ORDER = (Switch.DEPLOY, Switch.SYNC, Switch.RECEIVE, Switch.PROCESS, Switch.SEND)
OFF_ORDER = (Switch.SEND, Switch.PROCESS, Switch.RECEIVE, Switch.SYNC, Switch.DEPLOY)


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn one switch on or off."""

    switch: Switch
    on: bool

    def __str__(self) -> str:
        return f"{self.switch} {'on' if self.on else 'off'}"


def plan(now: Switches, wanted: Switches) -> tuple[Turn, ...]:
    """The turns that lead from what is on to what should be, in order."""
    missing, surplus = wanted.on() - now.on(), now.on() - wanted.on()
    turned_on = [Turn(switch, on=True) for switch in ON_ORDER if switch in missing]
    turned_off = [Turn(switch, on=False) for switch in OFF_ORDER if switch in surplus]
    return (*turned_on, *turned_off)
