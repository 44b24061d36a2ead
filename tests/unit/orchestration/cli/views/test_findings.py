"""Findings and the costs of their repairs as text."""

import io

import pytest
from rich.console import Console

from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.findings import Cost
from holdfast.orchestration.cli.views.findings import describe_cost, findings_table
from holdfast.orchestration.parsing import parse_repair
from tests.builders.doctor_facts import a_snapshot, a_well_stream, records


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(), "loses nothing"),
        (
            Cost(epochs_replayed=12, rows_replayed=4000, seconds=3.14),
            "replays 12 epochs, 4,000 rows, about 3.14 s; loses nothing",
        ),
        (
            Cost(epochs_replayed=1, rows_replayed=1, seconds=None),
            "replays 1 epoch, 1 row, unknown time; loses nothing",
        ),
        (Cost(epochs_skipped=2, rows_lost=150), "skips 2 epochs, loses 150 rows"),
    ],
)
def test_a_cost_says_what_is_lost(cost: Cost, text: str) -> None:
    assert describe_cost(cost) == text


def test_a_finding_has_its_repairs_below_it() -> None:
    diagnosis = diagnose(
        a_well_stream(snapshots=(a_snapshot(7, lost_packs=("[p1]",)), a_snapshot(3)))
    )
    out = io.StringIO()
    Console(file=out, width=200).print(findings_table(diagnosis))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[1].startswith("warning   pack_gone  snapshot 000000000007-1-words-1")
    assert lines[2] == "missing in the object store: [p1]"
    assert lines[3].startswith("→ set_aside_snapshots sets it aside")
    assert lines[4].startswith("replays 4 epochs, 400 rows, about 2 s; loses nothing; undo:")


def test_a_command_that_mends_a_finding_is_shown_with_its_cost() -> None:
    diagnosis = diagnose(a_well_stream(records=records(missing=(4,))))
    out = io.StringIO()
    Console(file=out, width=250).print(findings_table(diagnosis))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[3].startswith("→ run holdfast restore words --epoch 3: rolls ledger and output")
    assert lines[4] == "replays 6 epochs, 600 rows, about 3 s; loses nothing"


def test_a_repair_is_understood_with_hyphens_and_all_is_the_best_of_each() -> None:
    assert parse_repair("Set-Aside-Snapshots") == "set_aside_snapshots"
    assert parse_repair("all") is None
