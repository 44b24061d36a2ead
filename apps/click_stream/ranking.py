"""Which patterns are the most frequent, and when that changes."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]


def find_changes(
    counted: pd.DataFrame, *, window: int, k: int, since: int, until: int
) -> pd.DataFrame:
    """The first `k` patterns at each time after `since`, up to `until`, at which they change.

    `counted` are patterns with the time at which they enter the ranking; a `window` later they
    leave it.
    """
    codes, patterns = pd.factorize(counted["pattern"], sort=True)
    shown: Ints | None = None
    rows: list[tuple[int, int, str | None, int]] = []
    for at, counts in _counts(counted, codes, window=window, since=since, until=until):
        first = _first(counts, k)
        if shown is not None and not np.array_equal(first, shown):
            held = [*zip(patterns[first], counts[first], strict=True)]
            places = held + [(None, 0)] * (k - len(held))
            rows += [(at, rank, *place) for rank, place in enumerate(places, start=1)]
        shown = first
    changes = pd.DataFrame(rows, columns=["at", "rank", "pattern", "count"])
    return changes.astype({"at": "int64", "rank": "int32", "pattern": object, "count": "int64"})


def _counts(
    counted: pd.DataFrame, codes: Ints, *, window: int, since: int, until: int
) -> Iterator[tuple[int, Ints]]:
    """How often each code is in the window: at `since`, and whenever that changes."""
    comes, number = counted["at"].to_numpy(), counted["count"].to_numpy()
    at = np.concatenate([comes, comes + window])
    order = np.argsort(at, kind="stable")
    code = np.concatenate([codes, codes])[order]
    more = np.concatenate([number, -number])[order]
    moments = [since, *np.unique(at[(at > since) & (at <= until)]).tolist()]
    counts, begin = np.zeros(codes.max(initial=-1) + 1, dtype=np.int64), 0
    for moment, end in zip(moments, np.searchsorted(at[order], moments, "right"), strict=True):
        np.add.at(counts, code[begin:end], more[begin:end])
        yield moment, counts
        begin = end


def _first(counts: Ints, k: int) -> Ints:
    """The codes of the `k` greatest counts above zero, the greatest first, equal ones by code."""
    least = np.partition(counts, -k)[-k] if len(counts) > k else 1
    ranked = np.flatnonzero(counts >= max(least, 1))
    return ranked[np.argsort(-counts[ranked], kind="stable")][:k]
