"""Pairs of consecutive records of a phone: a window of two records that advances by one."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Places: TypeAlias = NDArray[np.intp]
Answers: TypeAlias = NDArray[np.bool_]


def order_records(rows: pd.DataFrame, last: pd.DataFrame | None, by: Sequence[str]) -> pd.DataFrame:
    """The last record of each phone and the new ones after it, phone by phone.

    Records not after the last one of their phone are left out: they came too late, or twice.
    """
    both = pd.concat([last, rows], ignore_index=True)
    phone, _ = pd.factorize(both["phone"])
    by_phone = np.argsort(phone, kind="stable")
    ordered, phone = both.iloc[by_phone], phone[by_phone]
    place, head = np.arange(len(phone)), np.searchsorted(phone, phone)
    after = _after(ordered, head, by) & _after(ordered, place - 1, by)
    stays: Answers = (place == head) | after
    return ordered[stays]


def pair_records(ordered: pd.DataFrame) -> pd.DataFrame:
    """Each record beside the one before it of the same phone, as `first_` and `second_` columns."""
    goes_on = _continues(ordered)
    first = ordered[goes_on].add_prefix("first_").reset_index(drop=True)
    second = ordered[np.roll(goes_on, 1)].add_prefix("second_").reset_index(drop=True)
    return pd.concat(
        [first.rename(columns={"first_phone": "phone"}), second.drop(columns="second_phone")],
        axis=1,
    )


def select_last_records(ordered: pd.DataFrame) -> pd.DataFrame:
    """The last record of each phone."""
    return ordered[~_continues(ordered)]


def _continues(ordered: pd.DataFrame) -> Answers:
    """For each record: is the next one of the same phone?"""
    phone = ordered["phone"]
    return phone.eq(phone.shift(-1)).to_numpy()


def _after(records: pd.DataFrame, places: Places, by: Sequence[str]) -> Answers:
    """For each record: is it after the record at its place in `places`?"""
    after, equal = np.zeros(len(records), dtype=bool), np.ones(len(records), dtype=bool)
    for column in by:
        values = records[column].to_numpy()
        others = values[places]
        after |= equal & (values > others)
        equal &= values == others
    return after
