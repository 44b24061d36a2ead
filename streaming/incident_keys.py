"""The incidents of lost replicas: how they are named, and when one makes another pointless.

A secondary that has taken over and the recovery sensor may both see a primary fall, so the key of an
incident follows from facts in the control store. An open incident may be waiting for its next try,
ever longer: a primary that is lost meanwhile must not wait with it.
"""

from resources.control.records import Incident

RECOVERY = "recovery"
OVERTAKEN = "overtaken by the loss of the primary"


def primary_key(stream: str, primary: str | None) -> str:
    """What the incidents of a lost primary begin with; the last one there was may be none."""
    return f"{stream}/{primary or 'never'}"


def secondary_key(stream: str, primary: str | None, secondary: str | None) -> str:
    """What the incidents of a lost secondary begin with, beside which primary it was."""
    return f"{primary_key(stream, primary)}/secondary-{secondary or 'never'}"


def has_key(incident: Incident, key: str) -> bool:
    """Whether it is one of the numbered incidents of a key."""
    return incident.key.rpartition("/")[0] == key


def is_of_secondary(incident: Incident) -> bool:
    """Whether the stream itself never stopped: only its secondary was lost."""
    return "/secondary-" in incident.key


def is_claimed(incident: Incident, *, at: float) -> bool:
    """Whether a run is dealing with it; whatever it is about, that run sees to the primary first."""
    return incident.claim_expires_at is not None and incident.claim_expires_at > at
