"""Compares all output of a stream with a batch recomputation."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.streams.workload import State
from holdfast.observation.tables import open_table
from holdfast.resources.project import Project

COLUMNS = ["entry", "events", "total"]
AMOUNTS = 1000


def count_differing_rows(project: Project, stream: str, state: State) -> int:
    """How many rows of the table are missing, wrong or there twice; every one ever put out counts."""
    table = open_table(project, stream)
    assert table is not None
    counts = table.to_pandas(columns=COLUMNS).groupby(COLUMNS).size()
    expected = (
        pd.concat(list(_compute_expected(project, stream, state.keys))).groupby(COLUMNS).size()
    )
    return int(counts.sub(expected, fill_value=0).abs().sum())


def _compute_expected(project: Project, stream: str, keys: int) -> Iterator[pd.DataFrame]:
    """Epoch by epoch, the entries that its rows change, as they are after it: see `keyed_state`."""
    last = project.store.ledger.last(stream)
    assert last is not None
    events, totals = np.zeros(keys, dtype=np.int64), np.zeros(keys, dtype=np.int64)
    begin = 0
    for epoch in project.store.epochs.between(stream, 0, last.epoch):
        offsets = np.arange(begin, epoch.end["rows"])
        begin = epoch.end["rows"]
        np.add.at(events, offsets % keys, 1)
        np.add.at(totals, offsets % keys, offsets % AMOUNTS)
        touched = np.unique(offsets % keys)
        yield pd.DataFrame(
            dict(zip(COLUMNS, (touched, events[touched], totals[touched]), strict=True))
        )
