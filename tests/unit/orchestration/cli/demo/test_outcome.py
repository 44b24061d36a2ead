"""The outcome of the demo: the recovery on one time axis, and what holds."""

import io
from typing import Any

import pytest
from rich.console import Console

from holdfast.observation.proof import Proof
from holdfast.orchestration.cli.demo.outcome import DemoOutcome
from holdfast.orchestration.cli.demo.timeline import Timeline
from holdfast.resources.control_store.records import JournalLine, LedgerEntry, Phase

KILLED_AT = 1000.0
FIRST_COMMIT = LedgerEntry(
    stream="words", epoch=7, replica="s", token=2, rows=10, digest="d", committed_at=1009.0
)


def a_line(step: str, at: float, phase: Phase = Phase.DONE, **detail: Any) -> JournalLine:
    return JournalLine(
        id=int(at), stream="words", playbook="recover", run="run", incident="i",
        step=step, phase=phase, at=at, seconds=0.5, detail=detail,
    )  # fmt: skip


def a_timeline(*lines: JournalLine, first_commit: LedgerEntry | None = FIRST_COMMIT) -> Timeline:
    return Timeline(
        killed="p", killed_at=KILLED_AT, incident=None, lines=list(lines), successor=None,
        first_commit=first_commit, new_epochs=0 if first_commit is None else 1,
    )  # fmt: skip


def an_outcome(timeline: Timeline, *, missing: list[int] | None = None) -> DemoOutcome:
    proof = Proof(
        stream="words", epochs=8, rows_in=80, rows_out=80, rows_expected=80,
        digest="d", digest_expected="d", missing=missing or [],
        twice=[], unwritten=[], differing=[], disputed=[],
    )  # fmt: skip
    return DemoOutcome(timeline=timeline, proof=proof, objective_seconds=10.0, left=[])


def shown(outcome: DemoOutcome) -> str:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(outcome.table())
    return console.export_text()


def test_seconds_count_from_the_kill_and_name_what_was_reached() -> None:
    timeline = a_timeline(a_line("Fence", 1002.0), a_line("AwaitCatchUp", 1008.0))
    seconds = timeline.as_dict()["seconds"]
    assert (seconds["run_at_work"], seconds["caught_up"], seconds["recovered"]) == (2.0, 8.0, 9.0)
    assert (seconds["detected"], seconds["launched"]) == (None, None)


@pytest.mark.parametrize(
    "last",
    [
        a_line("AwaitCatchUp", 1008.0, Phase.INTENT),
        a_line("AwaitCatchUp", 1008.0, failed="its process is gone"),
    ],
)
def test_a_wait_that_goes_on_or_failed_is_no_catch_up(last: JournalLine) -> None:
    assert a_timeline(last).seconds()["caught_up"] is None


def test_each_finished_step_is_there_with_its_result() -> None:
    lines = a_line("Launch", 1003.0, Phase.INTENT), a_line("Launch", 1004.0, replica="s")
    (step,) = a_timeline(*lines).as_dict()["steps"]
    assert step == {"step": "Launch", "seconds": 0.5, "result": {"replica": "s"}}


def test_a_recovery_within_the_objective_is_shown_as_held() -> None:
    text = shown(an_outcome(a_timeline(a_line("AwaitCatchUp", 1008.0))))
    assert "kill → caught up" in text
    assert "8 s" in text
    assert "objective: 10 s, held" in text


def test_a_missing_epoch_or_a_late_recovery_is_not_hidden() -> None:
    outcome = an_outcome(a_timeline(first_commit=None), missing=[3])
    assert not outcome.as_dict()["holds"]
    assert "missed" in shown(outcome)
    assert "epochs missing from the ledger: 3" in shown(outcome)
