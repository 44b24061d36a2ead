"""Proving a stream's output: computed again in one batch, from the epoch log and an oracle.

The epoch log says what the input of every epoch was, the source reads it again, and an oracle that
shares no code with the stream says what must have come out. The table must hold that and nothing
else, and every epoch must have been committed once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from holdfast.configs.sources import RateSource as RateDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.tables import open_table, table_epochs
from holdfast.resources.control_store.records import Epoch, LedgerEntry
from holdfast.resources.project import Project
from holdfast.streaming.sources.base import Readable
from holdfast.streaming.sources.rate import RateSource


class Oracle(Protocol):
    """What must have come out of each epoch, given the rows that went in (with their `epoch`)."""

    def __call__(
        self, rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
    ) -> dict[int, pd.DataFrame]:
        """The output of every epoch from 0 to `last_epoch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a stream put out against what it must have; lists name the epochs that are wrong."""

    stream: str
    epochs: int
    rows_in: int
    rows_out: int
    rows_expected: int
    digest: str
    digest_expected: str
    missing: list[int]
    twice: list[int]
    unwritten: list[int]
    differing: list[int]
    disputed: list[int]

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, doubled or changed."""
        return not self.faults()

    def faults(self) -> list[str]:
        """Everything that is wrong, in words."""
        lists = {
            "missing in the ledger": self.missing,
            "committed to the table more than once": self.twice,
            "in the ledger with rows and not in the table": self.unwritten,
            "with another number of rows than the batch": self.differing,
            "put out differently by two replicas": self.disputed,
        }
        found = [f"epochs {what}: {_few(epochs)}" for what, epochs in lists.items() if epochs]
        if self.epochs == 0:
            found.append("no epoch was committed: there is nothing to prove")
        if self.rows_out != self.rows_expected:
            found.append(f"{self.rows_out} rows in the table, {self.rows_expected} in the batch")
        if self.digest != self.digest_expected:
            found.append(f"digest {self.digest} in the table, {self.digest_expected} in the batch")
        return found


def prove(world: Project, stream: str, oracle: Oracle, *, source: Readable | None = None) -> Proof:
    """Hold the output table of a stream, which should not be running, against the oracle."""
    declared = world.config.stream(stream)
    last = world.store.ledger.last(stream)
    last_epoch = -1 if last is None else last.epoch
    log = world.store.epochs.between(stream, 0, last_epoch)
    entries = world.store.ledger.between(stream, 0, last_epoch)
    rows = input_rows(log, source or _source(world, stream))
    must = oracle(rows, declared.params, last_epoch=last_epoch) if log else {}
    expected = pd.concat(must.values(), ignore_index=True) if must else pd.DataFrame()
    table = open_table(world, stream)
    output = pd.DataFrame() if table is None else table.to_pandas()
    there = None if table is None else table_epochs(table, stream)
    commits = {} if there is None else there.counts
    copied_through = -1 if there is None else there.copied_through
    audit = world.store.ledger.audit(stream)
    return Proof(
        stream=stream,
        epochs=len(entries),
        rows_in=len(rows),
        rows_out=len(output),
        rows_expected=len(expected),
        digest=digest(output),
        digest_expected=digest(expected),
        missing=_missing(log, entries, last_epoch),
        twice=sorted(epoch for epoch, times in commits.items() if times > 1),
        unwritten=[
            e.epoch
            for e in entries
            if e.rows and e.epoch not in commits and e.epoch > copied_through
        ],
        differing=[e.epoch for e in entries if e.rows != len(must.get(e.epoch, ()))],
        disputed=[found.epoch for found in audit.disagreements],
    )


def input_rows(log: Sequence[Epoch], source: Readable) -> pd.DataFrame:
    """The input of these epochs, read again."""
    frames = [
        pa.Table.from_batches([batch]).to_pandas().assign(epoch=epoch.epoch)
        for epoch in log
        for split in source.splits(epoch.input)
        for batch in source.read(split)
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def digest(frame: pd.DataFrame) -> str:
    """A digest of the rows, whatever their order and whatever library read them."""
    plain = pd.DataFrame({name: _plain(frame[name]) for name in sorted(frame.columns)})
    if plain.empty:
        return hashlib.sha256().hexdigest()[:16]
    hashes = pd.util.hash_pandas_object(plain, index=False).sort_values()
    return hashlib.sha256(hashes.to_numpy().tobytes()).hexdigest()[:16]


def _source(world: Project, stream: str) -> Readable:
    declared = world.config.stream(stream).source
    if isinstance(declared, RateDeclaration):
        return RateSource(declared)
    raise PermanentError(
        f"the input of {stream} comes from {declared.kind} and cannot be computed again",
        hint="pass the source that reads it",
    )


def _missing(log: Sequence[Epoch], entries: Sequence[LedgerEntry], last_epoch: int) -> list[int]:
    both = {epoch.epoch for epoch in log} & {entry.epoch for entry in entries}
    return sorted(set(range(last_epoch + 1)) - both)


def _plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Instants as microseconds, numbers as int64 or, with nulls among them, as float64, text as Python's own."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return column.astype("datetime64[us, UTC]").astype("int64")
    if pd.api.types.is_datetime64_dtype(column):
        return column.astype("datetime64[us]").astype("int64")
    if pd.api.types.is_integer_dtype(column):
        return column.astype("float64" if column.isna().any() else "int64")
    if pd.api.types.is_float_dtype(column):
        return column.astype("float64")
    plain = column.astype(object)
    plain[column.isna()] = None
    return plain


def _few(epochs: Sequence[int]) -> str:
    shown = ", ".join(map(str, epochs[:10]))
    return shown if len(epochs) <= 10 else f"{shown} and {len(epochs) - 10} more"
