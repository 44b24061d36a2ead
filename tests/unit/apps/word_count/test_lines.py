"""Words of text lines: the oracle against examples by hand, and what the generator writes."""

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.word_count.generator import WORDLESS, WORDS, records
from holdfast.apps.word_count.oracle import COLUMNS, accepted, lines
from holdfast.apps.word_count.rules import objections

PARAMS = {"window": "10 seconds", "delay": "5 seconds"}
START = pd.Timestamp("2026-01-01T00:00:00Z")


def rows(*events: tuple[int, float, str]) -> pd.DataFrame:
    """Rows as (epoch, second after the start, line)."""
    return pd.DataFrame(
        {
            "epoch": [epoch for epoch, _, _ in events],
            "at": [START + pd.Timedelta(seconds=second) for _, second, _ in events],
            "line": [line for _, _, line in events],
        }
    )


def counts(frame: pd.DataFrame) -> dict[str, int]:
    return dict(zip(frame["word"], frame["count"], strict=True))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Tide, tide; TIDE!", {"tide": 3}),
        ("it's the crew's 'reef'", {"it's": 1, "the": 1, "crew's": 1, "reef": 1}),
        ("one_two (3rd) - naïve", {"one": 1, "two": 1, "3rd": 1, "naïve": 1}),
        ("* * *", {}),
        ("", {}),
    ],
)
def test_words_are_letters_and_digits_in_lower_case(line: str, words: dict[str, int]) -> None:
    output = lines(rows((0, 1, line), (0, 99, "end")), PARAMS, last_epoch=1)
    assert counts(output[1]) == words


def test_a_window_has_the_lines_up_to_the_epoch_that_closes_it() -> None:
    events = rows((0, 1, "a"), (1, 15, "b"), (2, 2, "a c"), (3, 3, "a"), (4, 99, "b"))
    output = lines(events, PARAMS, last_epoch=5)
    assert counts(output[2]) == {"a": 2, "c": 1}
    assert counts(output[5]) == {"b": 1}
    assert all(output[epoch].empty for epoch in (0, 1, 3, 4))


def test_a_line_without_words_does_not_move_the_watermark() -> None:
    output = lines(rows((0, 1, "a"), (0, 99, "..."), (1, 2, "a")), PARAMS, last_epoch=2)
    assert all(frame.empty for frame in output.values())


def test_no_lines_make_no_output_but_all_columns() -> None:
    output = lines(rows(), PARAMS, last_epoch=0)
    assert list(output[0].columns) == COLUMNS


def test_a_line_without_a_time_or_a_text_is_set_aside() -> None:
    events = rows((0, 1, "a"), (0, 2, "b"), (0, 3, "c"))
    events.loc[1, "at"], events.loc[2, "line"] = None, None
    assert objections(pa.RecordBatch.from_pandas(events)).to_pylist() == [None, "no at", "no line"]
    assert accepted(events).tolist() == [True, False, False]


def test_the_generator_is_seeded_and_in_the_order_of_time() -> None:
    first = records(2000, seed=1)
    pd.testing.assert_frame_equal(first, records(2000, seed=1))
    assert not first.equals(records(2000, seed=2))
    assert first["at"].is_monotonic_increasing
    assert WORDLESS in set(first["line"])


def test_the_most_frequent_word_is_the_first_and_few_words_are_most_of_the_text() -> None:
    events = records(5000, seed=1).assign(epoch=0)
    end = pd.DataFrame({"at": ["2026-01-02T00:00:00.000Z"], "line": ["end"], "epoch": [0]})
    output = lines(pd.concat([events, end]), {"window": "1 hour"}, last_epoch=1)[1]
    by_count = output.sort_values("count", ascending=False)
    assert by_count["word"].iloc[0] == WORDS[0]
    assert set(output["word"]) <= set(WORDS)
    assert by_count["count"].head(40).sum() > by_count["count"].sum() / 2
