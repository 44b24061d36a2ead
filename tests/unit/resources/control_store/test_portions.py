"""Long writes on SQLite go in portions, and leave its lock to others in between."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from holdfast.ft_policies.tiers import Tier
from holdfast.resources.control_store.database import PAUSE_SECONDS, Database
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import IncidentState
from holdfast.resources.control_store.schema import incidents
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables import retention
from holdfast.resources.control_store.tables.playbooks import restores
from tests.builders.control_rows import a_proposal, an_entry, decide
from tests.fakes.clocks import SteppedClock

LATER = 10**12
EPOCHS = 10
PORTION = 3
PORTIONS = 4


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restores, "PORTION", PORTION)
    monkeypatch.setattr(retention, "PORTION", PORTION)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SteppedClock) -> Iterator[ControlStore]:
    url = f"sqlite:///{tmp_path}/control.db"
    ControlStore.open(url).close()
    with ControlStore(Database(url, clock)) as store:
        store.streams.declare("words", {}, Tier.DEPLOYED)
        yield store


def fork(store: ControlStore) -> None:
    store.forks.copy("words", into="trial", through_epoch=EPOCHS)


def restore(store: ControlStore) -> None:
    wanted = store.restores.request("words", epoch=-1, snapshot=None, why="", run="run")
    store.restores.begin(wanted)


def prune_epochs(store: ControlStore) -> None:
    store.retention.prune_epochs("words", before=EPOCHS)


@pytest.mark.parametrize(
    ("write", "portions"),
    [
        pytest.param(fork, 2 * PORTIONS, id="fork"),
        pytest.param(restore, PORTIONS + 1, id="restore"),
        pytest.param(prune_epochs, PORTIONS, id="prune"),
    ],
)
def test_before_each_further_portion_others_get_the_lock(
    store: ControlStore, clock: SteppedClock, write: Callable[[ControlStore], None], portions: int
) -> None:
    decide(store, EPOCHS)
    for epoch in range(EPOCHS):
        store.ledger.commit(an_entry(epoch))
    began = clock.now()
    write(store)
    assert clock.now() - began == pytest.approx((portions - 1) * PAUSE_SECONDS)


def test_a_portion_that_took_long_is_followed_by_a_pause_as_long(
    store: ControlStore, clock: SteppedClock
) -> None:
    with store._database.write_portion():
        clock.step(2.0)
    began = clock.now()
    with store._database.write_portion():
        assert clock.now() - began == pytest.approx(2.0)


def test_an_epoch_with_many_files_is_copied_to_a_fork_in_several_transactions(
    store: ControlStore,
) -> None:
    files = [{"name": f"{number}.json", "size": 1, "changed_ns": 1} for number in range(EPOCHS)]
    store.epochs.propose(replace(a_proposal(0), input={"files": files}))
    changed: list[int] = []

    def note_changes(connection: sa.Connection) -> None:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        changed.append(driver.total_changes)

    event.listen(store._database.engine, "commit", note_changes)
    fork(store)
    assert max(after - before for before, after in pairwise(changed)) <= PORTION
    names = [file["name"] for file in files]
    assert len(store.epoch_files.find("trial", names)) == EPOCHS


def test_the_files_of_an_epoch_are_entered_by_one_statement_however_many_they_are(
    store: ControlStore,
) -> None:
    statements: list[str] = []
    event.listen(
        store._database.engine,
        "before_cursor_execute",
        lambda *arguments: statements.append(arguments[2]),
    )
    files = [{"name": f"{number}.json"} for number in range(2_000)]
    store.epochs.propose(replace(a_proposal(0), input={"files": files}))
    assert len([text for text in statements if text.startswith("INSERT INTO epoch_files")]) == 1


def test_pruning_closed_incidents_does_not_compare_each_with_all_others(
    store: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many take about twice the steps of SQLite's machine, not four times as many."""
    monkeypatch.setattr(retention, "PORTION", LATER)
    assert _steps_to_prune(store, 800) < 3 * _steps_to_prune(store, 400)


def _steps_to_prune(store: ControlStore, count: int) -> int:
    template = asdict(
        store.incidents.open(
            stream="words", key="words/r", kind=IncidentKind.INPUT_DIFFERS, detail={}
        )
    )
    closed = template | {"state": IncidentState.CLOSED, "closed_at": 1.0}
    rows = [closed | {"id": f"i{number}", "key": f"words/r{number}x/1"} for number in range(count)]
    with store._database.write() as connection:
        connection.execute(sa.insert(incidents), rows)
    steps: list[None] = []
    with store._database.engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        driver.set_progress_handler(lambda: steps.append(None), 100)
    assert store.retention.prune_records(before=LATER)["incidents"] == count
    return len(steps)
