"""The access log of a shop: visitors walk from page to page, and fashions change."""

import numpy as np
import numpy.typing as npt
import pandas as pd

FORMAT = "jsonl"
COLUMNS = "line string"

START = np.datetime64("2026-01-01T09:00:00")
SESSIONS_PER_SECOND = 7
THINKING_SECONDS = 20
MOST_REQUESTS = 16
FASHION_SECONDS = 1200
HUNG_UP_SHARE = 0.003
VISITORS, PRODUCTS = 20_000, 60

PRODUCT = 5
PAGES = np.array(
    ["/", "/search?q=rope", "/cart", "/checkout", "/help"]
    + [f"/product/{number}" for number in range(PRODUCTS)],
    dtype=object,
)
# From home, search, cart, checkout, help and a product (the rows) to each of them.
NEXT = np.cumsum(
    [
        [0.05, 0.35, 0.05, 0.00, 0.05, 0.50],
        [0.05, 0.20, 0.00, 0.00, 0.05, 0.70],
        [0.10, 0.05, 0.05, 0.60, 0.05, 0.15],
        [0.70, 0.10, 0.05, 0.05, 0.10, 0.00],
        [0.40, 0.30, 0.05, 0.05, 0.10, 0.10],
        [0.10, 0.15, 0.30, 0.00, 0.05, 0.40],
    ],
    axis=1,
)
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", 'Mozilla/5.0 (\\"quoted\\")', "curl/8.5.0")

Ints = npt.NDArray[np.int64]


def records(events: int, seed: int) -> pd.DataFrame:
    """Lines of the combined log format, in the order of their times."""
    random = np.random.default_rng(seed)
    sessions = events // 3 + 1
    starts = np.sort(random.uniform(0, sessions / SESSIONS_PER_SECOND, sessions))
    thinking = 1 + random.exponential(THINKING_SECONDS, (sessions, MOST_REQUESTS))
    seconds = (starts[:, None] + np.cumsum(thinking, axis=1)).astype(np.int64)
    pages = _walks(random, seconds)
    visitors = np.broadcast_to((VISITORS * random.random(sessions) ** 3)[:, None], pages.shape)
    lengths = np.minimum(2 + random.geometric(0.2, sessions), MOST_REQUESTS)
    is_within = np.arange(MOST_REQUESTS) < lengths[:, None]
    first = np.argsort(seconds[is_within], kind="stable")[:events]
    lines = _lines(
        random,
        seconds[is_within][first],
        visitors[is_within][first].astype(np.int64),
        PAGES[pages[is_within][first]],
    )
    return pd.DataFrame({"line": lines})


def _walks(random: np.random.Generator, seconds: Ints) -> Ints:
    """The pages of each session: a step depends on the page before, a product on the fashion."""
    kinds = np.zeros_like(seconds)
    for step in range(1, MOST_REQUESTS):
        chance = random.random((len(kinds), 1))
        kinds[:, step] = (NEXT[kinds[:, step - 1]] < chance).sum(axis=1).clip(max=PRODUCT)
    popular = (PRODUCTS * random.random(kinds.shape) ** 4).astype(np.int64)
    products = (popular + 7 * (seconds // FASHION_SECONDS)) % PRODUCTS
    return np.where(kinds == PRODUCT, PRODUCT + products, kinds)


def _lines(
    random: np.random.Generator, seconds: Ints, visitors: Ints, pages: npt.NDArray[np.object_]
) -> list[str]:
    """As Apache writes them; every second visitor is logged in, and a few clients hang up."""
    times = _times(seconds)
    hung_up = random.random(len(pages)) < HUNG_UP_SHARE
    requests = np.where(hung_up, '"-" 408 -', '"GET ' + pages + ' HTTP/1.1" 200 5120')
    return [
        f"10.0.{who // 250}.{who % 250} - {f'u{who}' if who % 2 else '-'} "
        f'[{time}] {request} "-" "{AGENTS[who % len(AGENTS)]}"'
        for time, who, request in zip(times, visitors.tolist(), requests.tolist(), strict=True)
    ]


def _times(seconds: Ints) -> list[str]:
    """`01/Jan/2026:09:00:00 +0000`, made once for each second."""
    distinct, which = np.unique(seconds, return_inverse=True)
    written = pd.DatetimeIndex(START + distinct).strftime("%d/%b/%Y:%H:%M:%S +0000")
    chosen: list[str] = written.to_numpy()[which].tolist()
    return chosen
