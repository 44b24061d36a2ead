"""The mood of tweets: the oracle against examples by hand, and what the generator writes."""

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.sentiment.generator import records
from holdfast.apps.sentiment.lexicon import KEYWORDS
from holdfast.apps.sentiment.oracle import COLUMNS, accepted, windowed
from holdfast.apps.sentiment.rules import objections

PARAMS = {
    "keywords": ["Taxi", "space"],
    "window": "10 seconds",
    "slide": "5 seconds",
    "delay": "5 seconds",
}
START = pd.Timestamp("2026-01-01T00:00:00Z")


def rows(*events: tuple[int, float, str]) -> pd.DataFrame:
    """Rows as (epoch, second after the start, text)."""
    return pd.DataFrame(
        {
            "epoch": [epoch for epoch, _, _ in events],
            "created_at": [START + pd.Timedelta(seconds=second) for _, second, _ in events],
            "text": [text for _, _, text in events],
        }
    )


def moods(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    """Start of the window in seconds, keyword, tweets, positive, negative, score."""
    starts = (frame["window_start"] - START).dt.total_seconds()
    return [*frame.assign(window_start=starts)[COLUMNS[:1] + COLUMNS[2:]].itertuples(index=False)]


@pytest.mark.parametrize(
    ("text", "mood"),
    [
        ("I LOVE this #Taxi, great!", (1, 1, 0, 5)),
        ("taxi taxi: worst, worst. Nice?", (1, 0, 1, -5)),
        ("a good taxi that is late", (1, 0, 0, 0)),
    ],
)
def test_a_tweet_scores_the_weights_of_its_words(text: str, mood: tuple[int, ...]) -> None:
    output = windowed(rows((0, 6, text), (0, 99, "#space")), PARAMS, last_epoch=1)
    assert moods(output[1]) == [(0, "taxi", *mood), (5, "taxi", *mood)]


def test_a_tweet_counts_for_each_keyword_and_others_for_none() -> None:
    events = rows((0, 1, "good #space taxi"), (0, 2, "taxis hate"), (0, 99, "space"))
    output = windowed(events, {**PARAMS, "slide": "10 seconds"}, last_epoch=1)
    assert moods(output[1]) == [(0, "space", 1, 1, 0, 1), (0, "taxi", 1, 1, 0, 1)]


def test_each_window_of_a_tweet_closes_by_itself() -> None:
    events = rows((0, 6, "taxi"), (1, 15, "taxi"), (2, 7, "bad taxi"), (3, 20, "taxi"))
    output = windowed(events, PARAMS, last_epoch=4)
    assert moods(output[2]) == [(0, "taxi", 2, 0, 1, -2)]
    assert moods(output[4]) == [(5, "taxi", 2, 0, 1, -2)]
    late = windowed(
        rows((0, 15, "taxi"), (1, 1, "taxi"), (2, 2, "taxi"), (2, 6, "taxi"), (3, 20, "taxi")),
        PARAMS,
        last_epoch=4,
    )
    assert moods(late[4]) == [(5, "taxi", 1, 0, 0, 0)]


def test_a_tweet_without_keywords_does_not_move_the_watermark() -> None:
    output = windowed(rows((0, 1, "taxi"), (0, 99, "train")), PARAMS, last_epoch=2)
    assert all(frame.empty for frame in output.values())


def test_no_tweets_make_no_output_but_all_columns() -> None:
    assert list(windowed(rows(), PARAMS, last_epoch=0)[0].columns) == COLUMNS


def test_a_tweet_that_lacks_something_is_set_aside() -> None:
    events = pd.DataFrame(
        {"created_at": [START, START, None], "id": ["1", None, "3"], "text": ["a", "b", None]}
    )
    reasons = objections(pa.RecordBatch.from_pandas(events)).to_pylist()
    assert reasons == [None, "no id", "no created_at"]
    assert accepted(events).tolist() == [True, False, False]


def test_the_generator_is_seeded_and_in_the_order_of_time() -> None:
    tweets = records(2000, seed=1)
    pd.testing.assert_frame_equal(tweets, records(2000, seed=1))
    assert not tweets.equals(records(2000, seed=2))
    assert tweets["created_at"].is_monotonic_increasing
    assert tweets["id"].is_unique


def test_every_keyword_has_good_and_bad_times() -> None:
    tweets = records(20_000, seed=1).assign(epoch=0)
    end = pd.DataFrame({"created_at": ["2026-02-01T00:00:00.000Z"], "text": ["taxi"], "epoch": [0]})
    output = windowed(
        pd.concat([tweets, end]), {"window": "1 minute", "slide": "1 minute"}, last_epoch=1
    )
    by_keyword = output[1].groupby("keyword")["score"]
    assert set(by_keyword.groups) == set(KEYWORDS)
    assert (by_keyword.max() > 0).all()
    assert (by_keyword.min() < 0).all()
