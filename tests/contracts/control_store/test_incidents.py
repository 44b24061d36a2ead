"""Incidents: one per failure, one owner at a time."""

from dataclasses import replace

import pytest

from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Incident, IncidentState
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.playbooks.incidents import IncidentKey, matches
from tests.builders.control_rows import (
    a_recovery,
    lost_primary,
    lost_secondary,
    orphaned,
)

RUN_OUT = -1.0


class TestIncidents:
    def open(self, store: ControlStore, key: str = "words/r1/dead") -> str:
        return store.incidents.open(
            stream="words", key=key, kind=IncidentKind.INPUT_DIFFERS, detail={"pid": 7}
        ).id

    def test_one_failure_is_one_incident(self, store: ControlStore) -> None:
        first = self.open(store)
        assert self.open(store) == first
        store.incidents.close(first, "recovered")
        assert self.open(store) == first
        [incident] = store.incidents.of(None, open_only=False)
        assert (incident.state, incident.detail) == (IncidentState.CLOSED, {"pid": 7})

    def test_the_same_failure_after_it_was_closed_is_the_next(self, store: ControlStore) -> None:
        def seen(since: float) -> Incident | None:
            return store.incidents.open_next(
                stream="words",
                key="words/r1",
                kind=IncidentKind.INPUT_DIFFERS,
                detail={},
                since=since,
            )

        first, before = seen(store.now()), store.now()
        assert first is not None
        assert first == seen(before)
        store.incidents.close(first.id, "recovered")
        assert seen(before) is None, "it was closed since"
        second = seen(store.now())
        assert second is not None
        assert (first.key, second.key) == ("words/r1/1", "words/r1/2")
        assert second.state is IncidentState.OPEN

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            (lost_primary("p1"), "words/p1/1"),
            (lost_primary(None), "words/never/1"),
            (replace(lost_primary(None), token=7), "words/token-7/1"),
            (lost_secondary("s1"), "words/p1/secondary-s1/1"),
            (lost_secondary(None), "words/p1/secondary-never/1"),
            (orphaned("r1"), "words/r1/unwanted/1"),
        ],
    )
    def test_a_recovery_says_which_replica_it_is_about(
        self, store: ControlStore, key: IncidentKey, text: str
    ) -> None:
        incident = a_recovery(store, key, reason="gone")
        assert (incident.key, incident.kind) == (text, IncidentKind.RECOVERY)
        assert (incident.subject, incident.replica) == (key.subject, key.replica)
        assert store.incidents.get(incident.id) == incident
        assert matches(incident, key)

    def test_another_replica_or_place_is_another_failure(self, store: ControlStore) -> None:
        incident = a_recovery(store, lost_primary("p1"))
        assert not matches(incident, lost_primary("p2"))
        assert not matches(incident, lost_secondary("p1"))
        assert not matches(incident, orphaned("p1"))

    def test_an_incident_of_another_kind_may_be_about_no_replica(self, store: ControlStore) -> None:
        incident = store.incidents.get(self.open(store))
        assert incident is not None
        assert (incident.subject, incident.replica) == (None, None)

    def test_a_claim_has_one_owner_until_it_runs_out(self, store: ControlStore) -> None:
        incident = self.open(store)
        first = store.incidents.claim(incident, "a", 60.0)
        assert first is not None
        assert (first.claimed_by, first.attempts) == ("a", 1)
        assert store.incidents.claim(incident, "b", 60.0) is None
        again = store.incidents.claim(incident, "a", RUN_OUT)
        assert again is not None
        assert again.attempts == 1
        other = store.incidents.claim(incident, "b", 60.0)
        assert other is not None
        assert (other.claimed_by, other.attempts) == ("b", 2)

    def test_a_closed_incident_cannot_be_claimed_or_closed_again(self, store: ControlStore) -> None:
        incident = self.open(store)
        store.incidents.claim(incident, "b", 60.0)
        store.incidents.close(incident, "recovered")
        store.incidents.close(incident, "something else")
        assert store.incidents.claim(incident, "a", 60.0) is None
        closed = store.incidents.get(incident)
        assert closed is not None
        assert (closed.outcome, closed.claimed_by) == ("recovered", "b")
        assert closed.closed_at is not None

    def test_the_figures_of_a_closed_incident_are_beside_its_facts(
        self, store: ControlStore
    ) -> None:
        incident = store.incidents.open(
            stream="words", key="k", kind=IncidentKind.INPUT_DIFFERS, detail={"reason": "gone"}
        )
        assert store.incidents.closed_since(0.0) == []
        store.incidents.close(incident.id, "recovered", figures={"recovery_seconds": 1.5})
        store.incidents.close(incident.id, "again", figures={"recovery_seconds": 9.0})
        [closed] = store.incidents.closed_since(0.0)
        assert closed.detail == {"reason": "gone", "recovery_seconds": 1.5}
        assert store.incidents.closed_since(store.now() + 60.0) == []

    def test_open_incidents_are_listed_by_stream(self, store: ControlStore) -> None:
        first, second = self.open(store, "k1"), self.open(store, "k2")
        store.incidents.open(stream="others", key="k3", kind=IncidentKind.INPUT_DIFFERS, detail={})
        store.incidents.close(first, "recovered")
        assert [i.id for i in store.incidents.of("words")] == [second]
        assert {i.id for i in store.incidents.of("words", open_only=False)} == {first, second}
        assert len(store.incidents.of(None)) == 2
        assert store.incidents.get("unknown") is None
