"""Lines of natural text: few words are frequent, most are rare, with punctuation and capitals."""

from itertools import product

import numpy as np
import pandas as pd

from holdfast.apps.word_count.vocabulary import VOCABULARY

FORMAT = "jsonl"
COLUMNS = "at timestamp, line string"

START = np.datetime64("2026-01-01T00:00:00.000")
MEAN_GAP_MS = 20
WORDLESS, WORDLESS_SHARE = "* * *", 0.002

WORDS = (
    *("the", "it's", "don't"),
    *VOCABULARY,
    *(first + second for first, second in product(VOCABULARY, VOCABULARY)),
)
FORMS = {"{}": 70, "{},": 12, "{}.": 8, '"{}"': 3, "({})": 2, "'{}'": 2, "{} -": 2, "{}_{}": 1}
CASES = {str.lower: 80, str.capitalize: 15, str.upper: 5}


def records(events: int, seed: int) -> pd.DataFrame:
    """Lines of 3 to 12 words, in the order of their times."""
    random = np.random.default_rng(seed)
    gaps = random.exponential(MEAN_GAP_MS, events)
    at = START + np.cumsum(gaps).astype("timedelta64[ms]")
    lengths = random.integers(3, 13, events)
    words = _words(random, int(lengths.sum()))
    ends = np.cumsum(lengths)
    lines = [" ".join(words[first:end]) for first, end in zip(ends - lengths, ends, strict=True)]
    wordless = random.random(events) < WORDLESS_SHARE
    return pd.DataFrame(
        {
            "at": np.datetime_as_string(at, timezone="UTC"),
            "line": np.where(wordless, WORDLESS, np.array(lines, dtype=object)),
        }
    )


def _words(random: np.random.Generator, number: int) -> list[str]:
    """Words by Zipf's law, each as it is written in a text."""
    written = np.array(
        [
            [form.format(case(word), case(word)) for form, case in product(FORMS, CASES)]
            for word in WORDS
        ],
        dtype=object,
    )
    frequency = 1 / np.arange(1, len(WORDS) + 1)
    weight = np.outer(list(FORMS.values()), list(CASES.values())).ravel()
    word = random.choice(len(WORDS), number, p=frequency / frequency.sum())
    how = random.choice(len(weight), number, p=weight / weight.sum())
    chosen: list[str] = written[word, how].tolist()
    return chosen
