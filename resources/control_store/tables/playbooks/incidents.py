# ruff: noqa: A002 (an id is an id, also as an argument)
"""Incidents: one row per failure, however many observers report it, and one owner at a time.

A secondary that has taken over and the recovery sensor may both notice the loss of a primary, so the key of
a recovery incident is computed from rows of the control store. The next attempt of an open incident may be
delayed, ever longer: a primary that is lost meanwhile must not wait for it.
"""

from dataclasses import dataclass
from uuid import uuid4

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    Incident,
    IncidentState,
    IncidentSubject,
    JsonObject,
)
from holdfast.resources.control_store.schema import incidents

CLAIM_SECONDS = 30.0
FARTHEST_CLAIM_SECONDS = 4 * CLAIM_SECONDS
"""A claim that lasts longer than this from now was made before the clock was set back: it counts as expired."""
PROMPT_ATTEMPTS = 2
PAUSE_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 1800.0

_OWNER = sa.bindparam("owner", type_=sa.Text)
_IS_OPEN = sa.and_(incidents.c.id == sa.bindparam("of_id"), incidents.c.state == IncidentState.OPEN)
_NOW = sa.select(store_now().label("now"))
_GET = sa.select(incidents).where(incidents.c.id == sa.bindparam("of_id"))
_BY_KEY = sa.select(incidents).where(incidents.c.key == sa.bindparam("of_key"))
_ALL = sa.select(incidents).order_by(incidents.c.opened_at.desc(), incidents.c.id)
_NEWEST_KEY = (  # by its number, which may have more digits than the one before
    sa.select(incidents.c.key)
    .where(
        incidents.c.stream == sa.bindparam("of_stream"),
        sa.func.rtrim(incidents.c.key, "0123456789") == sa.bindparam("of_key", type_=sa.Text),
    )
    .order_by(sa.func.length(incidents.c.key).desc(), incidents.c.key.desc())
    .limit(1)
)
_CLAIM = (
    sa.update(incidents)
    .where(
        _IS_OPEN,
        sa.or_(
            incidents.c.claimed_by.is_(None),
            incidents.c.claimed_by == _OWNER,
            incidents.c.claim_expires_at <= store_now(),
            incidents.c.claim_expires_at > store_now() + FARTHEST_CLAIM_SECONDS,
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
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(
        self,
        *,
        stream: str,
        key: str,
        kind: IncidentKind,
        detail: JsonObject,
        subject: IncidentSubject | None = None,
        replica: str | None = None,
    ) -> Incident:
        """Report a failure; returns the incident of this key if there is one, open or closed."""
        insert = self._database.insert(incidents).values(
            id=uuid4().hex,
            stream=stream,
            key=key,
            kind=kind,
            subject=subject,
            replica=replica,
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
        self,
        *,
        stream: str,
        key: str,
        kind: IncidentKind,
        detail: JsonObject,
        since: float,
        subject: IncidentSubject | None = None,
        replica: str | None = None,
    ) -> Incident | None:
        """Report a failure that was observed at `since`, which may not be the first of this key.

        Incidents that were closed before count as other failures: the keys are `<key>/1`, `<key>/2`
        and so on, after the newest one that is not pruned. `None` if one was closed after: then the observation is out
        of date. One that will be closed in the future was closed before the clock was set back.
        """
        number = self._newest_number(stream, key)
        while True:
            incident = self.open(
                stream=stream,
                key=f"{key}/{number}",
                kind=kind,
                detail=detail,
                subject=subject,
                replica=replica,
            )
            if incident.state is IncidentState.OPEN:
                return incident
            if incident.closed_at is None or since <= incident.closed_at <= self._now():
                return None
            number += 1

    def _newest_number(self, stream: str, key: str) -> int:
        """The number of the newest incident of this key, in one query however many there were; 1 if there is none."""
        values = {"of_stream": stream, "of_key": f"{key}/"}
        rows = self._database.fetch(_NEWEST_KEY, values)
        return int(rows[0]["key"].removeprefix(f"{key}/") or 1) if rows else 1

    def _now(self) -> float:
        return float(self._database.fetch(_NOW)[0]["now"])

    def open_recovery(
        self, key: "IncidentKey", *, detail: JsonObject, since: float
    ) -> Incident | None:
        """Report that a replica was lost or left behind, as `open_next` does."""
        return self.open_next(
            stream=key.stream,
            key=str(key),
            kind=IncidentKind.RECOVERY,
            detail=detail,
            since=since,
            subject=key.subject,
            replica=key.replica,
        )

    def claim(self, id: str, owner: str, ttl_seconds: float) -> Incident | None:
        """Claim it for a run, or keep the claim; `None` if it is closed or claimed by another."""
        values = {"of_id": id, "owner": owner, "ttl_seconds": ttl_seconds}
        return self._database.change(Incident, _CLAIM, values)

    def close(self, id: str, outcome: str, *, figures: JsonObject | None = None) -> None:
        """Close an incident; the first outcome is kept. `figures` are added to its detail."""
        incident = self.get(id) if figures else None
        close = _CLOSE
        if incident is not None and figures:
            close = close.values(detail={**incident.detail, **figures})
        self._database.execute(close, {"of_id": id, "new_outcome": outcome})

    def get(self, id: str) -> Incident | None:
        return self._database.find(Incident, _GET, {"of_id": id})

    def of(self, stream: str | None, *, open_only: bool = True) -> list[Incident]:
        """The incidents of one stream or of all, newest first."""
        query = _ALL
        if stream is not None:
            query = query.where(incidents.c.stream == stream)
        if open_only:
            query = query.where(incidents.c.state == IncidentState.OPEN)
        return self._database.find_all(Incident, query)

    def closed_since(self, at: float) -> list[Incident]:
        """The incidents of all streams that were closed since then, newest first."""
        return self._database.find_all(Incident, _ALL.where(incidents.c.closed_at >= at))


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentKey:
    """The failure that a recovery incident is about: all observers of it make the same key."""

    stream: str
    subject: IncidentSubject
    replica: str | None
    """The last replica that the stream had; `None` if it never had one."""
    primary: str | None = None
    """The primary beside which a secondary was lost."""
    token: int | None = None
    """The token of the lease that a secondary took while the primary's slot was empty."""

    def __str__(self) -> str:
        match self.subject:
            case IncidentSubject.ORPHAN:
                return f"{self.stream}/{self.replica}/unwanted"
            case IncidentSubject.SECONDARY:
                beside = self.primary or "never"
                return f"{self.stream}/{beside}/secondary-{self.replica or 'never'}"
            case IncidentSubject.PRIMARY if self.token is not None:
                return f"{self.stream}/token-{self.token}"
            case IncidentSubject.PRIMARY:
                return f"{self.stream}/{self.replica or 'never'}"


def matches(incident: Incident, key: IncidentKey) -> bool:
    """Whether the incident is about the replica that the key names."""
    return (incident.subject, incident.replica) == (key.subject, key.replica)


def _find_claim_end(incident: Incident, *, at: float) -> float | None:
    """When the last claim expires or expired; `None` without one, or if the clock was set back since."""
    end = incident.claim_expires_at
    return None if end is None or end > at + FARTHEST_CLAIM_SECONDS else end


def is_claimed(incident: Incident, *, at: float) -> bool:
    """Whether a run is recovering it; that run recovers the primary first, whatever the subject."""
    end = _find_claim_end(incident, at=at)
    return end is not None and at < end


def is_waiting(incident: Incident, *, at: float) -> bool:
    """Whether its runs failed and the next attempt is not due yet."""
    end = _find_claim_end(incident, at=at)
    return end is not None and end <= at < due_at(incident, at=at)


def due_at(incident: Incident, *, at: float) -> float:
    """When the next run may be requested.

    The first attempts follow each other at once; if they keep failing, the pauses grow.
    """
    since = _find_claim_end(incident, at=at)
    if since is None:
        return incident.opened_at
    if incident.attempts <= PROMPT_ATTEMPTS:
        return since
    doublings = min(incident.attempts - PROMPT_ATTEMPTS - 1, 10)
    return since + min(PAUSE_SECONDS * 2.0**doublings, LONGEST_PAUSE_SECONDS)
