"""Whether the source keeps the input of recoveries and restores long enough."""

import pytest

from holdfast.ft_policies.retention import InputAge, MarginVerdict, ReplayInput, judge_margin

DAY = 86400.0


def age(days: float, fault: str = "") -> InputAge:
    return InputAge(epoch=7, file="a.jsonl", seconds=days * DAY, fault=fault)


def judge(
    recovery: InputAge | None, restore: InputAge | None, *, kept_for_seconds: float | None
) -> MarginVerdict:
    replay = ReplayInput(first_epoch=6, recovery=recovery, restore=restore)
    return judge_margin(replay, kept_for_seconds=kept_for_seconds)


@pytest.mark.parametrize("days", [1.0, 6.2, 6.5, 8.0])
def test_the_margin_is_what_the_source_keeps_beyond_the_oldest_input(days: float) -> None:
    verdict = judge(age(0.1), age(days), kept_for_seconds=7 * DAY)
    assert (verdict.recoverable, verdict.lasting) == (True, days < 6.3)
    assert verdict.margin_seconds == pytest.approx((7.0 - days) * DAY)
    assert ("restore_window" in verdict.reason) is (days > 6.3)


def test_lost_input_of_a_recovery_is_worse_than_that_of_a_restore() -> None:
    lost = age(1.0, "is gone from input")
    verdict = judge(lost, lost, kept_for_seconds=None)
    assert not verdict.recoverable
    assert verdict.reason == "a recovery reads epoch 7 again, but a.jsonl is gone from input"
    verdict = judge(age(0.0), lost, kept_for_seconds=None)
    assert (verdict.recoverable, verdict.lasting) == (True, False)
    assert "keep input at least as long as retention.restore_window" in verdict.reason


def test_without_a_declared_retention_only_what_is_gone_counts() -> None:
    verdict = judge(age(0.0), age(400.0), kept_for_seconds=None)
    assert (verdict.recoverable, verdict.lasting, verdict.margin_seconds) == (True, True, None)
    assert judge(None, None, kept_for_seconds=DAY).reason == "no input has to be read again"
