"""Tweets: most have no keyword, the others a mood that turns, and their rate swings."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from holdfast.apps.sentiment.lexicon import KEYWORDS, WEIGHTS

FORMAT = "jsonl"
COLUMNS = "created_at timestamp, id string, text string"

START = np.datetime64("2026-01-01T18:00:00.000")
FIRST_ID = 2_006_000_000_000_000_000
MEAN_GAP_MS = 20
WAVE_TWEETS, MOOD_TWEETS = 60_000, 20_000
ONE_TOPIC, TWO_TOPICS, MOODY = 0.4, 0.03, 0.6

FILLERS = (
    "the", "a", "is", "was", "today", "my", "your", "@friend", "really", "again", "rt", "so",
    "with", "not", "this", "every", "morning", "night", "café", "https://t.co/x1", "&", "...",
)  # fmt: skip
TOPICS = [form for word in KEYWORDS for form in (f"#{word.capitalize()}", word, f"{word.upper()}!")]
CHEERFUL = [word for word, weight in WEIGHTS.items() if weight > 0]
GLOOMY = [word for word, weight in WEIGHTS.items() if weight < 0]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.str_]


def records(events: int, seed: int) -> pd.DataFrame:
    """Tweets in the order of their times; the time between two swings by half around its mean."""
    random, number = np.random.default_rng(seed), np.arange(events)
    swing = 1 + np.sin(2 * np.pi * number / WAVE_TWEETS) / 2
    gaps = random.exponential(MEAN_GAP_MS, events) * swing
    at = START + np.cumsum(gaps).astype("timedelta64[ms]")
    return pd.DataFrame(
        {
            "created_at": np.datetime_as_string(at, timezone="UTC"),
            "id": (FIRST_ID + number).astype(str),
            "text": _texts(random, number),
        }
    )


def _texts(random: np.random.Generator, number: Ints) -> list[str]:
    """Words around a topic, if there is one, whose mood turns; each topic is in its own phase."""
    events = len(number)
    topic = (len(TOPICS) * random.random(events) ** 2).astype(np.int64)
    phase = 2 * np.pi * (number / MOOD_TWEETS + topic / len(TOPICS))
    cheerful = random.random(events) < 0.5 + 0.4 * np.sin(phase)
    mood = np.where(cheerful, random.choice(CHEERFUL, events), random.choice(GLOOMY, events))
    columns = [
        *random.choice(FILLERS, (4, events)),
        _some(random, np.array(TOPICS)[topic], ONE_TOPIC),
        _some(random, mood, MOODY),
        *random.choice(FILLERS, (3, events)),
        _some(random, random.choice(TOPICS, events), TWO_TOPICS),
    ]
    return [" ".join(filter(None, words)) for words in zip(*columns, strict=True)]


def _some(random: np.random.Generator, words: Words, share: float) -> Words:
    """A share of the words, and nothing in place of the others."""
    return np.where(random.random(len(words)) < share, words, "")
