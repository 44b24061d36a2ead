"""What a soak counts as a fault, as a command, as survived; no stream is started."""

import pytest

from tests.chaos.report import Trial
from tests.chaos.soak_operator import judge_command
from tests.chaos.soak_plan import Engine, Outcome
from tests.chaos.soak_report import SoakReport

NAMES = ("kill-java", "kill-s3", "status", "restore", "migrate", "killed-restore")


@pytest.fixture
def report() -> SoakReport:
    return SoakReport(names=NAMES, engine=Engine.SQLITE)


def test_a_fault_after_which_something_did_not_hold_is_injected_and_not_survived(
    report: SoakReport,
) -> None:
    report.note(Trial(part="kill-java", what="one"))
    report.note(Trial(part="kill-java", what="two", failure="FAILED: no epoch"))
    report.note(Trial(part="settled", what=""))
    assert report.count_faults()["kill-java"] == {"injected": 2, "survived": 1}
    assert report.count_faults()["kill-s3"] == {"injected": 0, "survived": 0}
    assert report.exit_code() == 1


def test_only_a_command_that_changed_the_stream_counts_as_a_fault(report: SoakReport) -> None:
    report.note(Trial(part="restore", what="done"))
    report.note(Trial(part="restore", what="no snapshot", refused=True))
    report.note(Trial(part="status", what="read"))
    report.note(Trial(part="killed-restore", what="killed"))
    facts = report.as_dict()
    assert (facts["faults"]["injected"], facts["faults"]["survived"]) == (2, 2)
    assert facts["commands"]["kinds"]["restore"] == {"run": 2, "done": 1, "refused": 1}
    assert {name: facts["commands"][name] for name in ("run", "done", "refused")} == {
        "run": 3,
        "done": 2,
        "refused": 1,
    }
    assert "status" not in facts["faults"]["kinds"]
    assert "killed-restore" not in facts["commands"]["kinds"]


def test_a_command_that_failed_is_neither_done_nor_refused(report: SoakReport) -> None:
    report.note(Trial(part="migrate", what="see", failure="FAILED: Traceback"))
    assert report.count_commands()["migrate"] == {"run": 1, "done": 0, "refused": 0}
    assert report.count_faults()["migrate"] == {"injected": 1, "survived": 0}


def test_the_verdict_names_what_never_came_and_the_engine(report: SoakReport) -> None:
    report.note(Trial(part="kill-java", what="one"))
    report.note(Trial(part="restore", what="refused", refused=True))
    report.note(Trial(part="status", what="read"))
    assert report.never_injected() == ["kill-s3", "killed-restore"]
    assert report.never_done() == ["migrate", "restore"]
    verdict = report.verdict()
    assert "engine sqlite" in verdict
    assert "never injected: kill-s3, killed-restore" in verdict
    assert "never ended with success: migrate, restore" in verdict


def test_the_table_has_both_sums(report: SoakReport) -> None:
    report.note(Trial(part="kill-java", what="one"))
    report.note(Trial(part="restore", what="refused", refused=True))
    table = report.table()
    assert "faults: 1 injected, 1 survived" in table
    assert "commands: 1 run, 0 done, 1 refused" in table


def test_checks_are_counted_apart(report: SoakReport) -> None:
    report.note(Trial(part="settled", what=""))
    assert report.count_checks(["settled", "bounds"]) == {
        "settled": {"made": 1, "held": 1},
        "bounds": {"made": 0, "held": 0},
    }


def test_a_command_with_its_hint_is_refused_and_without_one_it_does_not_hold() -> None:
    words = ("restore", "words", "--epoch", "3")
    assert judge_command(words, 0, "done") == Outcome("restore words --epoch 3: 0")
    assert judge_command(words, 1, "no such epoch\n hint: name another").refused
    with pytest.raises(AssertionError):
        judge_command(words, 1, "no such epoch")
    with pytest.raises(AssertionError):
        judge_command(words, 2, "hint: see --help")
    with pytest.raises(AssertionError):
        judge_command(words, 1, "Traceback (most recent call last):\n hint: none")


def test_findings_of_the_doctor_are_no_refusal() -> None:
    assert not judge_command(("doctor", "words"), 4, "critical").refused
    assert judge_command(("doctor", "words"), 1, "hint: wait").refused


def test_a_drill_needs_a_hint_or_the_time_that_it_took() -> None:
    words = ("drill", "words", "--fault", "kill")
    late = "kill in deployed: back after 70.0 s, predicted 9.0 s, objective 60 s missed"
    assert judge_command(words, 1, late).refused
    assert judge_command(
        words, 1, "cannot be drilled: it is dead\n hint: drill a healthy stream"
    ).refused
    with pytest.raises(AssertionError):
        judge_command(words, 1, "words  the primary is gone")
