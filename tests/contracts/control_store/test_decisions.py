"""What the controller decided."""

from typing import Any

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import Mode, Tier
from holdfast.resources.control_store.records import DecisionRow
from holdfast.resources.control_store.store import ControlStore


def a_decision(stream: str = "words", **changes: Any) -> DecisionRow:
    facts: dict[str, Any] = {
        "stream": stream,
        "mode": Mode.AUTO,
        "chosen": Tier.DEPLOYED,
        "reason": "the cheapest that is back within 10 s",
        "record": {"tiers": [{"seconds": 6.25, "rejected": None}]},
    }
    return DecisionRow(**{**facts, **changes})


class TestDecisions:
    def test_a_decision_is_kept_with_its_record(self, store: ControlStore) -> None:
        given = a_decision(snapshot_every=7.5, sync_every=2.0, run="run-7")
        kept = store.decisions.write(given)
        assert store.decisions.latest("words") == kept
        assert (kept.mode, kept.chosen, kept.run) == (Mode.AUTO, Tier.DEPLOYED, "run-7")
        assert (kept.snapshot_every, kept.sync_every) == (7.5, 2.0)
        assert (kept.reason, kept.record) == (given.reason, given.record)
        assert kept.at == pytest.approx(store.now(), abs=30)
        assert store.decisions.write(a_decision(at=12.5)).at == 12.5

    def test_a_history_is_of_one_stream_and_keeps_the_newest(self, store: ControlStore) -> None:
        for at, tier in enumerate(list(Tier)[:3], start=1):
            store.decisions.write(a_decision(chosen=tier, at=float(at)))
        store.decisions.write(a_decision("others", at=9.0))
        history = store.decisions.history("words")
        assert [line.chosen for line in history] == list(Tier)[:3]
        assert store.decisions.history("words", limit=2) == history[1:]
        assert store.decisions.history("words", since_at=3.0) == history[2:]
        assert store.decisions.history("unknown") == []
        assert store.decisions.latest("words") == history[-1]
        assert store.decisions.latest("unknown") is None

    def test_the_newest_of_all_streams_is_one_look(self, store: ControlStore) -> None:
        for name in ("words", "others", "undecided"):
            store.streams.declare(name, {}, "deployed")
        assert store.decisions.latest_of_all() == {}
        store.decisions.write(a_decision(reason="first"))
        last = store.decisions.write(a_decision(reason="second", mode=Mode.ADVISE))
        other = store.decisions.write(a_decision("others"))
        assert store.decisions.latest_of_all() == {"words": last, "others": other}

    def test_what_is_no_tier_is_refused(self, store: ControlStore) -> None:
        with pytest.raises(PermanentError, match="hottest"):
            store.decisions.write(a_decision(chosen="hottest"))
        assert store.decisions.history("words") == []
