"""The mood of tweets by keyword, over a sliding window."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, functions as sf

from holdfast.apps.sentiment.lexicon import KEYWORDS, WEIGHTS

WORD = r"[\p{L}\p{N}_]+"
DIGEST_CHARACTERS = 64


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Tweets, cheerful and gloomy ones, and the sum of their scores, for each window and keyword.

    The watermark stands behind the filter: only tweets with a keyword move it.
    """
    window = sf.window(
        "created_at", params.get("window", "10 seconds"), params.get("slide", "2 seconds")
    )
    return (
        _matching(df, params.get("keywords", KEYWORDS))
        .withWatermark("created_at", params.get("delay", "5 seconds"))
        .groupBy(window, "keyword")
        .agg(
            _number(params.get("payload_bytes", 0)).cast("bigint").alias("tweets"),
            sf.count_if(sf.col("score") > 0).alias("positive"),
            sf.count_if(sf.col("score") < 0).alias("negative"),
            sf.sum("score").alias("score"),
        )
        .select(
            sf.col("window.start").alias("window_start"),
            sf.col("window.end").alias("window_end"),
            *("keyword", "tweets", "positive", "negative", "score"),
        )
    )


def _matching(df: DataFrame, keywords: Sequence[str]) -> DataFrame:
    """A row for each keyword in a tweet, as a word or a hashtag, and the tweet's score."""
    words = sf.regexp_extract_all(sf.lower("text"), sf.lit(WORD), sf.lit(0))
    followed = sf.array(*(sf.lit(keyword.lower()) for keyword in keywords))
    return (
        df.select("created_at", "id", words.alias("words"))
        .withColumn("keyword", sf.explode(sf.array_intersect("words", followed)))
        .withColumn("score", _score(sf.col("words")))
    )


def _score(words: Column) -> Column:
    """The weights of all words together."""
    weights = sf.create_map(*(sf.lit(part) for entry in WEIGHTS.items() for part in entry))
    return sf.aggregate(
        words, sf.lit(0), lambda total, word: total + sf.coalesce(weights[word], sf.lit(0))
    )


def _number(payload_bytes: int) -> Column:
    """How many tweets; with a payload each is kept to be counted, so the state follows the rate."""
    if not payload_bytes:
        return sf.count("*")
    return sf.size(sf.collect_list(_payload(payload_bytes)))


def _payload(size: int) -> Column:
    """A text of `size` characters that follows from the tweet's id and does not compress."""
    parts = sf.sequence(sf.lit(0), sf.lit(size // DIGEST_CHARACTERS))
    digests = sf.transform(parts, lambda part: sf.sha2(sf.concat_ws("/", "id", part), 256))
    return sf.left(sf.array_join(digests, ""), sf.lit(size))
