"""The journal of playbooks."""

from holdfast.resources.control_store.records import Phase
from holdfast.resources.control_store.store import ControlStore


class TestJournal:
    def test_lines_come_in_the_order_they_were_written(self, store: ControlStore) -> None:
        for run, step in (("1", "fence"), ("2", "fence"), ("1", "start")):
            store.journal.write(
                stream="words", playbook="recover", run=run, step=step, phase=Phase.INTENT
            )
        store.journal.write(
            stream="words",
            playbook="recover",
            run="1",
            step="start",
            phase=Phase.DONE,
            incident="i",
            seconds=1.5,
            detail={"pid": 7},
        )
        lines = store.journal.of("words", run="1")
        assert [(line.step, line.phase) for line in lines] == [
            ("fence", Phase.INTENT),
            ("start", Phase.INTENT),
            ("start", Phase.DONE),
        ]
        assert (lines[2].seconds, lines[2].detail, lines[2].incident) == (1.5, {"pid": 7}, "i")
        assert [line.run for line in store.journal.of("words", limit=2)] == ["1", "1"]
        assert store.journal.of("others") == []
