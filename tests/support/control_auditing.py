"""What every control store answers to an audit."""

from typing import Any

import sqlalchemy as sa

from resources.control_store.schema import epochs
from resources.control_store.store import ControlStore
from tests.support.control_builders import an_entry, decide


def lose(store: ControlStore, table: sa.Table, *lost: int) -> None:
    """Delete the rows of epochs, as only damage does."""
    for epoch in lost:
        of: Any = sa.and_(table.c.stream == "words", table.c.epoch == epoch)
        store._database.execute(sa.delete(table).where(of))


class AuditingContract:
    def test_an_epoch_log_without_holes_lacks_nothing(self, store: ControlStore) -> None:
        assert store.auditing.undecided("words") == []
        decide(store, 5)
        assert store.auditing.undecided("words") == []

    def test_holes_in_the_epoch_log_are_found_from_the_first_epoch_on(
        self, store: ControlStore
    ) -> None:
        decide(store, 9)
        decide(store, 3, stream="other")
        lose(store, epochs, 0, 3, 4, 6)
        assert store.auditing.undecided("words") == [0, 3, 4, 6]
        assert store.auditing.undecided("other") == []

    def test_entries_that_nobody_decided_are_found(self, store: ControlStore) -> None:
        decide(store, 3)
        for epoch in range(3):
            store.ledger.commit(an_entry(epoch))
        assert store.auditing.unknown("words") == []
        lose(store, epochs, 1)
        assert store.auditing.unknown("words") == [1]

    def test_an_entry_is_withdrawn_only_for_the_replica_that_it_is_of(
        self, store: ControlStore
    ) -> None:
        decide(store, 2)
        store.ledger.commit(an_entry(0, replica="r1"))
        store.ledger.commit(an_entry(0, replica="r2", digest="another"))
        store.auditing.withdraw("words", 0, "r2")
        assert store.ledger.get("words", 0) is not None
        store.auditing.withdraw("words", 0, "r1")
        assert store.ledger.get("words", 0) is None
        assert store.ledger.audit("words").disagreements == []
        assert store.ledger.commit(an_entry(0, replica="r2")).first
