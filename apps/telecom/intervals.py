"""Intervals as declarations write them."""

import pandas as pd


def parse_seconds(interval: str) -> int:
    """Whole seconds of an interval such as `10 minutes`."""
    return int(pd.Timedelta(interval).total_seconds())
