"""The expectations of both word counts hold for their output and for nothing else."""

from collections.abc import Callable

import great_expectations as gx
import pandas as pd
import pytest

from holdfast.apps.word_count.expectations import lines, suite
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

GOOD = pd.DataFrame(
    {
        "window_start": pd.to_datetime(["2026-01-01T00:00:00Z"] * 2),
        "window_end": pd.to_datetime(["2026-01-01T00:00:10Z"] * 2),
        "word": ["anchor", "wharf"],
        "count": [1, 7],
    }
)


def failed(frame: pd.DataFrame, expected: Callable[[], gx.ExpectationSuite]) -> list[str]:
    return failed_kinds(frame, expected())


@pytest.mark.parametrize("expected", [suite, lines])
def test_good_output_meets_them_and_so_does_none(
    expected: Callable[[], gx.ExpectationSuite],
) -> None:
    assert failed(GOOD, expected) == []
    assert failed(GOOD.iloc[:0], expected) == []


@pytest.mark.parametrize("expected", [suite, lines])
@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (GOOD.assign(count=[0, 1]), "column_values_to_be_between"),
        (
            GOOD.assign(word=GOOD["word"].where(GOOD["word"] != "wharf")),
            "column_values_to_not_be_null",
        ),
        (
            GOOD.assign(window_end=GOOD["window_start"]),
            "column_pair_values_a_to_be_greater_than_b",
        ),
        (GOOD.assign(extra=1), "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(
    frame: pd.DataFrame, kind: str, expected: Callable[[], gx.ExpectationSuite]
) -> None:
    assert failed(frame, expected) == [kind]


def test_the_demo_has_only_words_of_its_vocabulary() -> None:
    assert failed(GOOD.assign(word=["anchor", "spam"]), suite) == ["column_values_to_be_in_set"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["anchor", "Wharf"], "column_values_to_match_regex"),
        (["it's", "wharf."], "column_values_to_match_regex"),
        (["anchor", "anchor"], "compound_columns_to_be_unique"),
    ],
)
def test_words_of_lines_are_normalised_and_come_once_a_window(words: list[str], kind: str) -> None:
    assert failed(GOOD.assign(word=words), lines) == [kind]
