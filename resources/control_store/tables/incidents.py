# ruff: noqa: A002 (an id is an id, also as an argument)
"""Incidents: one row per failure, however many observers report it, and one owner at a time."""

import math
from uuid import uuid4

import sqlalchemy as sa

from resources.control_store.database import Database, store_now
from resources.control_store.records import Incident, IncidentState, JsonObject
from resources.control_store.schema import incidents

_OWNER = sa.bindparam("owner", type_=sa.Text)
_IS_OPEN = sa.and_(incidents.c.id == sa.bindparam("of_id"), incidents.c.state == IncidentState.OPEN)
_GET = sa.select(incidents).where(incidents.c.id == sa.bindparam("of_id"))
_BY_KEY = sa.select(incidents).where(incidents.c.key == sa.bindparam("of_key"))
_ALL = sa.select(incidents).order_by(incidents.c.opened_at.desc(), incidents.c.id)
_CLAIM = (
    sa.update(incidents)
    .where(
        _IS_OPEN,
        sa.or_(
            incidents.c.claimed_by.is_(None),
            incidents.c.claimed_by == _OWNER,
            incidents.c.claim_expires_at <= store_now(),
        ),
    )
    .values(
        claimed_by=_OWNER,
        claim_expires_at=store_now() + sa.bindparam("ttl_seconds", type_=sa.Double),
        attempts=incidents.c.attempts + sa.case((incidents.c.claimed_by == _OWNER, 0), else_=1),
    )
    .returning(*incidents.c)
)
_CLOSE = (
    sa.update(incidents)
    .where(_IS_OPEN)
    .values(
        state=IncidentState.CLOSED,
        closed_at=store_now(),
        outcome=sa.bindparam("new_outcome"),
    )
)


class Incidents:
    """The table of incidents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, *, stream: str, key: str, kind: str, detail: JsonObject) -> Incident:
        """Report a failure; a known key gives the incident that is there, open or closed."""
        insert = self._database.insert(incidents).values(
            id=uuid4().hex,
            stream=stream,
            key=key,
            kind=kind,
            state=IncidentState.OPEN,
            opened_at=store_now(),
            detail=detail,
            outcome="",
            attempts=0,
        )
        opened = insert.on_conflict_do_nothing(index_elements=[incidents.c.key])
        rows = self._database.execute(opened.returning(*incidents.c))
        rows = rows or self._database.fetch(_BY_KEY, {"of_key": key})
        return Incident(**rows[0])

    def open_next(
        self, *, stream: str, key: str, kind: str, detail: JsonObject, since: float
    ) -> Incident | None:
        """Report a failure that was seen at `since`, which may not be the first of this key.

        Incidents that were closed before count as other failures: the keys are `<key>/1`, `<key>/2`
        and so on. `None` if one was closed after: then what was seen is not news.
        """
        number = 1
        while True:
            found = self.open(stream=stream, key=f"{key}/{number}", kind=kind, detail=detail)
            if found.state is IncidentState.OPEN:
                return found
            if found.closed_at is None or found.closed_at >= since:
                return None
            number += 1

    def claim(self, id: str, owner: str, ttl_seconds: float) -> Incident | None:
        """Become, or stay, the one who deals with it; `None` if it is closed or another's."""
        values = {"of_id": id, "owner": owner, "ttl_seconds": ttl_seconds}
        rows = self._database.execute(_CLAIM, values)
        return Incident(**rows[0]) if rows else None

    def close(self, id: str, outcome: str) -> None:
        """Say how it ended; the first outcome stands."""
        self._database.execute(_CLOSE, {"of_id": id, "new_outcome": outcome})

    def get(self, id: str) -> Incident | None:
        """The incident of this id."""
        rows = self._database.fetch(_GET, {"of_id": id})
        return Incident(**rows[0]) if rows else None

    def of(self, stream: str | None, *, open_only: bool = True) -> list[Incident]:
        """The incidents of one stream or of all, newest first."""
        query = _ALL
        if stream is not None:
            query = query.where(incidents.c.stream == stream)
        if open_only:
            query = query.where(incidents.c.state == IncidentState.OPEN)
        return [Incident(**row) for row in self._database.fetch(query)]


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
