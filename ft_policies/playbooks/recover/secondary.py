"""The secondary of a stream, as the recover playbook sees it, and the switches that it should have on."""

from dataclasses import dataclass

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.tiers import Switches, Turn, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryView:
    """The live secondary."""

    id: str
    health: Health
    reason: str
    observed: Switches
    desired: Switches
    paused: bool = False
    rollout: int = 0

    def next_turn(self, wanted: Switches) -> Turn | None:
        """The turn that comes next, also where only the desire is left over from another plan."""
        turns = plan(self.observed, wanted) or plan(self.desired, wanted)
        return turns[0] if turns else None

    def asked(self, turn: Turn, wanted: Switches) -> Switches:
        """What to desire so that this turn happens and nothing else goes off.

        What is on stays on, whatever an earlier plan desired; what is wanted and desired already
        stays desired.
        """
        kept = self.observed
        for switch in self.desired.on() & wanted.on():
            kept = kept.turned(switch, on=True)
        return kept.turned(turn.switch, turn.on)
