"""Closing an incident by hand: only one that nobody else closes."""

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.records import Incident, IncidentState
from holdfast.resources.project import Project
from holdfast.streaming.sinks.ledger_writer import DIGEST_DIFFERS

BY_HAND = frozenset({DIGEST_DIFFERS})
LISTED = "`holdfast incidents` lists them"


def close(world: Project, stream: str | None, id_begins: str, *, why: str) -> Incident:
    """Close the incident whose id begins so, and give it as it is then."""
    incident = _named(world.store.incidents.of(stream, open_only=False), id_begins)
    if incident.state is IncidentState.CLOSED:
        raise PermanentError(f"incident {incident.id} is closed: {incident.outcome}")
    if incident.kind not in BY_HAND:
        name = incident.stream
        raise PermanentError(
            f"incident {incident.id} ({incident.kind}) is not closed by hand: it would be opened anew "
            f"until {name} is as it should be, and then the recovery sensor closes it",
            hint=f"`holdfast recover {name}`, or `holdfast stop {name}` if you do not need it",
        )
    world.store.incidents.close(incident.id, f"closed by hand: {why}")
    return world.store.incidents.get(incident.id) or incident


def _named(known: list[Incident], id_begins: str) -> Incident:
    found = [one for one in known if one.id.startswith(id_begins)]
    if not found:
        raise PermanentError(f"there is no incident {id_begins!r}", hint=LISTED)
    if len(found) > 1:
        raise PermanentError(
            f"{len(found)} incidents begin with {id_begins!r}",
            hint=f"give more of the id: {', '.join(one.id for one in found)}",
        )
    return found[0]
