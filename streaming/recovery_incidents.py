"""The incidents of lost replicas: their names, when the next try is due, and what overtakes them.

A secondary that has taken over and the recovery sensor may both see a primary fall, so the key of an
incident follows from facts in the control store. An open incident may be waiting for its next try,
ever longer: a primary that is lost meanwhile must not wait with it.
"""

import math

from resources.control.incidents import Incidents
from resources.control.records import Incident

RECOVERY = "recovery"
OVERTAKEN = "overtaken by the loss of the primary"
PROMPT_ATTEMPTS = 2
PAUSE_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 1800.0


def primary_key(stream: str, primary: str | None) -> str:
    """What the incidents of a lost primary begin with; the last one there was may be none."""
    return f"{stream}/{primary or 'never'}"


def secondary_key(stream: str, primary: str | None, secondary: str | None) -> str:
    """What the incidents of a lost secondary begin with, beside which primary it was."""
    return f"{primary_key(stream, primary)}/secondary-{secondary or 'never'}"


def unwanted_key(stream: str, replica: str) -> str:
    """What the incidents of a replica begin with that nobody wants and nobody has told to leave."""
    return f"{stream}/{replica}/unwanted"


def has_key(incident: Incident, key: str) -> bool:
    """Whether it is one of the numbered incidents of a key."""
    return incident.key.rpartition("/")[0] == key


def is_of_primary(incident: Incident) -> bool:
    """Whether a primary was lost; otherwise the stream itself never stopped."""
    return "/secondary-" not in incident.key and "/unwanted/" not in incident.key


def is_claimed(incident: Incident, *, at: float) -> bool:
    """Whether a run is dealing with it; whatever it is about, that run sees to the primary first."""
    return incident.claim_expires_at is not None and incident.claim_expires_at > at


def is_waiting(incident: Incident, *, at: float) -> bool:
    """Whether its runs kept failing and the next one is not due yet."""
    return not is_claimed(incident, at=at) and at < due_at(incident)


def due_at(incident: Incident) -> float:
    """When the next run may be asked for.

    The first attempts follow each other at once; if they keep failing, the pauses grow.
    """
    since = incident.claim_expires_at
    if since is None:
        return incident.opened_at
    if incident.attempts <= PROMPT_ATTEMPTS:
        return since
    doublings = min(incident.attempts - PROMPT_ATTEMPTS - 1, 10)
    return since + min(PAUSE_SECONDS * 2.0**doublings, LONGEST_PAUSE_SECONDS)


def overtake(incidents: Incidents, incident: Incident) -> float:
    """Close an incident in favour of a newer one; the moment since which that one is news."""
    incidents.close(incident.id, OVERTAKEN)
    closed = incidents.get(incident.id)
    closed_at = None if closed is None else closed.closed_at
    return math.nextafter(closed_at or incident.opened_at, math.inf)
