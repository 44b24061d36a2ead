"""The secondary of a stream as the recover playbook sees it, and the switches that it should have on."""

from dataclasses import dataclass

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.tiers import SwitchChange, Switches, switch_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryView:
    """The live secondary."""

    id: str
    health: Health
    reason: str
    observed: Switches
    desired: Switches
    paused: bool = False
    migration: int = 0

    def next_change(self, target: Switches) -> SwitchChange | None:
        """The change that comes next, even if only an earlier plan's desire has to be corrected."""
        changes = switch_changes(self.observed, target) or switch_changes(self.desired, target)
        return changes[0] if changes else None

    def desire_for(self, change: SwitchChange, target: Switches) -> Switches:
        """The switches to desire so that this change happens and no other switch goes off.

        A switch that is on stays on, whatever an earlier plan desired; a switch of the target that is already
        desired stays desired.
        """
        desired = self.observed
        for switch in self.desired.on() & target.on():
            desired = desired.turn(switch, on=True)
        return desired.turn(change.switch, change.on)
