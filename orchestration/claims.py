"""Being the one run that deals with an incident, for as long as one is alive to say so."""

from dataclasses import dataclass

from ft_policies.errors import PermanentError
from resources.clock import SYSTEM_CLOCK, Clock
from resources.control_store.records import Incident, IncidentState
from resources.control_store.tables.incidents import Incidents

CLAIM_SECONDS = 30.0
BEAT_SECONDS = 5.0


class ClaimLostError(PermanentError):
    """Another run deals with the incident now, or it is closed."""


@dataclass(slots=True)
class Claim:
    """A run's hold on an incident; it ends by itself if the run does."""

    incidents: Incidents
    incident: str
    owner: str
    clock: Clock = SYSTEM_CLOCK
    _renewed: float = 0.0

    def take(self) -> Incident | None:
        """Become or stay the one; `None` if another is, or if it is closed."""
        self._renewed = self.clock.monotonic()
        return self.incidents.claim(self.incident, self.owner, CLAIM_SECONDS)

    def beat(self) -> None:
        """Hold it for longer, now and then; whoever lost it must stop."""
        if self.clock.monotonic() - self._renewed < BEAT_SECONDS:
            return
        if self.take() is None:
            raise ClaimLostError(
                f"incident {self.incident} is no longer dealt with by {self.owner}: {self.holder()}",
                hint="the other run goes on from here",
            )

    def holder(self) -> str:
        """Who has it, in words."""
        found = self.incidents.get(self.incident)
        if found is None:
            return "there is no such incident"
        if found.state is IncidentState.CLOSED:
            return f"it is closed: {found.outcome}"
        return f"run {found.claimed_by} has it"
