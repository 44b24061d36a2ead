"""How far back epochs are kept."""

from typing import Any

import pytest

from holdfast.ft_policies.retention import EpochFacts, first_epoch_to_keep
from holdfast.ft_policies.snapshots import DatedSnapshot, RetentionPolicy

DAY = 86400.0


def facts(**changes: Any) -> EpochFacts:
    usual: dict[str, Any] = {
        "first_epoch": 10,
        "last_entered": 900,
        "first_in_window": 500,
        "oldest_snapshot": 700,
    }
    return EpochFacts(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, 500),
        ({"oldest_snapshot": 300}, 300),
        ({"replica_epochs": (450, 899)}, 450),
        ({"pending_restore": 420}, 420),
        ({"first_in_window": None}, 700),
        ({"first_in_window": None, "oldest_snapshot": 950}, 900),
    ],
)
def test_the_oldest_that_anything_needs_is_kept(changes: dict[str, Any], first: int) -> None:
    assert first_epoch_to_keep(facts(**changes)) == first


@pytest.mark.parametrize("missing", ["oldest_snapshot", "last_entered"])
def test_without_a_snapshot_or_output_everything_is_kept(missing: str) -> None:
    assert first_epoch_to_keep(facts(**{missing: None})) == 10


def test_what_is_pruned_stays_pruned() -> None:
    assert first_epoch_to_keep(facts(oldest_snapshot=3)) == 10


@pytest.mark.parametrize("hour", [0, 1, 12, 23])
def test_a_snapshot_from_before_the_window_is_always_kept(hour: int) -> None:
    window, now = 3 * DAY, 100 * DAY + hour * 3600
    shipped = [DatedSnapshot(str(n), n, now - n * 3600) for n in range(24 * 20)]
    verdicts = RetentionPolicy(last=2).covering(window).decide(shipped, now=now)
    kept = [verdict.snapshot for verdict in verdicts if verdict.keep]
    assert min(snapshot.created_at for snapshot in kept) <= now - window
    assert len(kept) <= 2 + 5
