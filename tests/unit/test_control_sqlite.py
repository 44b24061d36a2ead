"""The contract of the control store on SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    "tests.support.control_auditing",
    "tests.support.control_choices",
    "tests.support.control_decisions",
    "tests.support.control_gaps",
    "tests.support.control_lately",
    "tests.support.control_registers",
    "tests.support.control_takeovers",
    "tests.support.control_tiers",
)

from resources.control_store.store import ControlStore  # noqa: E402
from tests.support import (  # noqa: E402
    control_auditing,
    control_choices,
    control_decisions,
    control_gaps,
    control_histories,
    control_lately,
    control_registers,
    control_takeovers,
    control_tiers,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/folder/control.db") as opened:
        yield opened


class TestLeases(control_decisions.LeaseContract): ...


class TestEpochs(control_decisions.EpochContract): ...


class TestLedger(control_decisions.LedgerContract): ...


class TestHistories(control_histories.HistoryContract): ...


class TestGaps(control_gaps.GapContract): ...


class TestForks(control_histories.ForkContract): ...


class TestAuditing(control_auditing.AuditingContract): ...


class TestStreams(control_registers.StreamContract): ...


class TestReplicas(control_registers.ReplicaContract): ...


class TestTiers(control_tiers.TierContract): ...


class TestDecisions(control_choices.DecisionContract): ...


class TestPace(control_choices.PaceContract): ...


class TestLately(control_lately.LatelyContract): ...


class TestSlots(control_takeovers.SlotContract): ...


class TestTakeovers(control_takeovers.TakeoverContract): ...


class TestSnapshots(control_registers.SnapshotContract): ...


class TestSamples(control_registers.SampleContract): ...


class TestIncidents(control_registers.IncidentContract): ...


class TestJournal(control_registers.JournalContract): ...
