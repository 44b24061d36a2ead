"""Words that are typed: understood whatever their case and hyphens, refused with the nearest one."""

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.parsing import parse_enum, parse_repair


def test_case_and_hyphens_do_not_matter() -> None:
    assert parse_enum(Tier, " Active-Standby ") is Tier.ACTIVE_STANDBY
    assert parse_enum(Fault, "CUT_OFF") is Fault.CUT_OFF


def test_an_unknown_word_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(PermanentError, match="there is no protocol 'repley'") as refused:
        parse_enum(Protocol, "repley")
    assert refused.value.hint == (
        "did you mean replay? choose one of interruption_free, replay, legacy"
    )


def test_what_is_near_to_nothing_gets_no_suggestion() -> None:
    with pytest.raises(PermanentError) as refused:
        parse_enum(Fault, "hug")
    assert refused.value.hint == "choose one of kill, pause, cut_off"


def test_all_repairs_are_offered_with_the_others() -> None:
    assert parse_repair("ALL") is None
    with pytest.raises(PermanentError, match="there is no repair 'al'") as refused:
        parse_repair("al")
    assert refused.value.hint.startswith("did you mean all? choose one of all, ")
