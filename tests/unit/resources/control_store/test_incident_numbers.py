"""A failure that comes again and again costs the same each time it is reported."""

from pathlib import Path

from sqlalchemy import event

from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Incident
from holdfast.resources.control_store.store import ControlStore


def report(store: ControlStore) -> Incident:
    incident = store.incidents.open_next(
        stream="words", key="words/input_away", kind=IncidentKind.INPUT_AWAY, detail={}, since=4e9
    )
    assert incident is not None
    return incident


def test_an_incident_is_opened_in_one_write_however_many_there_were(tmp_path: Path) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        for _ in range(12):
            store.incidents.close(report(store).id, "mended")
        writes: list[str] = []
        event.listen(
            store._database.engine,
            "before_cursor_execute",
            lambda *arguments: writes.append(arguments[2]),
        )
        assert report(store).key == "words/input_away/13"
        assert len([text for text in writes if text.startswith("INSERT INTO incidents")]) == 2
