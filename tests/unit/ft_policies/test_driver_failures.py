"""What a replica does when its query has failed."""

import pytest

from holdfast.ft_policies.driver import FailureKind, GiveUp, QueryFailurePolicy, TryAgain
from holdfast.resources.control_store.database import BusyError
from holdfast.streaming.query.query import classify_failure

POLICY = QueryFailurePolicy(unknown_tries=3, first_pause_seconds=0.5, longest_pause_seconds=4.0)


def test_what_heals_by_itself_is_tried_for_ever_with_growing_pauses() -> None:
    decisions = [
        POLICY.decide(FailureKind.TRANSIENT, failures_in_a_row=n) for n in (1, 2, 3, 4, 5, 1000)
    ]
    assert [d.after_seconds for d in decisions if isinstance(d, TryAgain)] == [
        0.5, 1.0, 2.0, 4.0, 4.0, 4.0,
    ]  # fmt: skip


def test_an_unknown_error_is_tried_a_few_times() -> None:
    kinds = [type(POLICY.decide(FailureKind.UNKNOWN, failures_in_a_row=n)) for n in (1, 2, 3)]
    assert kinds == [TryAgain, TryAgain, GiveUp]


def test_a_permanent_error_is_not_tried_again() -> None:
    assert isinstance(POLICY.decide(FailureKind.PERMANENT, failures_in_a_row=1), GiveUp)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("java.io.IOException: No space left on device", FailureKind.TRANSIENT),
        (
            "holdfast.ft_policies.errors.TransientError: the table cannot be read",
            FailureKind.TRANSIENT,
        ),
        ("holdfast.ft_policies.errors.PermanentError: input file a is gone", FailureKind.PERMANENT),
        ("ZeroDivisionError: division by zero", FailureKind.UNKNOWN),
    ],
)
def test_a_failure_is_judged_by_what_it_says(text: str, kind: FailureKind) -> None:
    assert classify_failure(RuntimeError(text)) is kind


def test_a_lock_of_the_control_store_that_another_process_holds_is_waited_for() -> None:
    assert classify_failure(BusyError("locked by process 12")) is FailureKind.TRANSIENT
