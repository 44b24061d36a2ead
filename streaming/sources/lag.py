"""How far the output of a stream is behind its input: in rows, and in seconds since the oldest of them arrived.

Input counts until it is committed, whether an epoch has it or not.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.streaming.sources.base import Json, Source

if TYPE_CHECKING:
    from holdfast.resources.control_store.records import Epoch
    from holdfast.resources.control_store.store import ControlStore

RECENT_EPOCHS = 10
LOOKED_THROUGH = 100  # epochs: enough to find one that is not empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Input that is not committed: how many rows, if that is known, and the age of the oldest in seconds."""

    rows: int | None
    seconds: float


def recent_inputs(store: "ControlStore", last: "Epoch") -> list[Json]:
    """The inputs of the last epochs, up to this one: the rows of waiting input are estimated from them."""
    first = max(last.epoch - RECENT_EPOCHS, 0)
    return [epoch.input for epoch in store.epochs.between(last.stream, first, last.epoch)]


def measure_lag(store: "ControlStore", stream: str, source: Source, *, at: float) -> Lag:
    """Measure the lag now; raises if the source cannot be read."""
    last, committed = store.epochs.last(stream), store.ledger.last(stream)
    newest = -1 if last is None else last.epoch
    first = 0 if committed is None else committed.epoch + 1
    backlog = source.backlog(
        None if last is None else last.end,
        [] if last is None else recent_inputs(store, last),
        now=at,
    )
    decided = store.epochs.between(stream, first, min(newest, first + LOOKED_THROUGH))
    arrivals = (source.arrived_at(epoch.input, epoch.end) for epoch in decided)
    oldest_at = next((arrived for arrived in arrivals if arrived is not None), backlog.oldest_at)
    rows = None
    if backlog.rows is not None:
        rows = store.epochs.rows_between(stream, first, newest) + backlog.rows
    return Lag(rows=rows, seconds=0.0 if oldest_at is None else max(at - oldest_at, 0.0))
