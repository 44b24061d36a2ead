"""The proof of a stream's output: computed again in one batch, from the epoch log and an oracle.

The epoch log has the input of every epoch, the source reads it again, and an oracle that shares no code
with the stream computes the expected output. The table must hold that and nothing else, and every epoch
must have been committed once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from holdfast.configs.declarations.sources import RateSource as RateDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.tables import open_table, table_epochs
from holdfast.resources.control_store.records import Epoch, LedgerEntry
from holdfast.resources.project import Project
from holdfast.streaming.sources.base import Readable
from holdfast.streaming.sources.rate import RateSource


class Oracle(Protocol):
    """Computes the expected output of each epoch from the input rows (with their `epoch`)."""

    def __call__(
        self, rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
    ) -> dict[int, pd.DataFrame]:
        """The output of every epoch from 0 to `last_epoch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The output of a stream compared with the expected output; the lists name the wrong epochs."""

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
        """Every difference, as a sentence."""
        lists = {
            "missing from the ledger": self.missing,
            "committed to the table more than once": self.twice,
            "in the ledger with rows and not in the table": self.unwritten,
            "with another number of rows than the batch": self.differing,
            "computed differently by two replicas": self.disputed,
        }
        faults = [f"epochs {fault}: {_few(epochs)}" for fault, epochs in lists.items() if epochs]
        if self.epochs == 0:
            faults.append("nothing to prove: no epoch was committed")
        if self.rows_out != self.rows_expected:
            faults.append(f"{self.rows_out} rows in the table, {self.rows_expected} in the batch")
        if self.digest != self.digest_expected:
            faults.append(f"digest {self.digest} in the table, {self.digest_expected} in the batch")
        return faults


def prove(
    project: Project, stream: str, oracle: Oracle, *, source: Readable | None = None
) -> Proof:
    """Compare the output table of a stream, which should not be running, with the oracle's output."""
    declared = project.config.stream(stream)
    _require_all_epochs(project, stream)
    last = project.store.ledger.last(stream)
    last_epoch = -1 if last is None else last.epoch
    log = project.store.epochs.between(stream, 0, last_epoch)
    entries = project.store.ledger.between(stream, 0, last_epoch)
    rows = input_rows(log, source or _source(project, stream))
    outputs = oracle(rows, declared.params, last_epoch=last_epoch) if log else {}
    expected = pd.concat(outputs.values(), ignore_index=True) if outputs else pd.DataFrame()
    table = open_table(project, stream)
    output = pd.DataFrame() if table is None else table.to_pandas()
    in_table = None if table is None else table_epochs(table, stream)
    commits = {} if in_table is None else in_table.counts
    twice = {epoch for epoch, times in commits.items() if times > 1}
    audit = project.store.ledger.audit(stream)
    return Proof(
        stream=stream,
        epochs=len(entries),
        rows_in=len(rows),
        rows_out=len(output),
        rows_expected=len(expected),
        digest=digest(output),
        digest_expected=digest(expected),
        missing=_missing(log, entries, last_epoch),
        twice=sorted(twice.union(() if in_table is None else in_table.twice)),
        unwritten=[
            e.epoch for e in entries if e.rows and (in_table is None or not in_table.holds(e.epoch))
        ],
        differing=[e.epoch for e in entries if e.rows != len(outputs.get(e.epoch, ()))],
        disputed=[disagreement.epoch for disagreement in audit.disagreements],
    )


def _require_all_epochs(project: Project, stream: str) -> None:
    first = project.store.retention.floor(stream).first_epoch
    if first:
        raise PermanentError(
            f"the output of {stream} cannot be proven: its epochs before {first} are pruned",
            hint="use the check `ledger_complete` and the job `rehash_output`, which compare the kept epochs; for proofs "
            "of the whole output set `retention.restore_window` longer than the stream runs",
        )


def input_rows(log: Sequence[Epoch], source: Readable) -> pd.DataFrame:
    """Read the input of these epochs again."""
    frames = [
        pa.Table.from_batches([batch]).to_pandas().assign(epoch=epoch.epoch)
        for epoch in log
        for split in source.splits(epoch.input)
        for batch in source.read(split)
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def digest(frame: pd.DataFrame) -> str:
    """Digest the rows, independent of their order and of the library that read them."""
    plain = pd.DataFrame({name: _plain(frame[name]) for name in sorted(frame.columns)})
    if plain.empty:
        return hashlib.sha256().hexdigest()[:16]
    hashes = pd.util.hash_pandas_object(plain, index=False).sort_values()
    return hashlib.sha256(hashes.to_numpy().tobytes()).hexdigest()[:16]


def _source(project: Project, stream: str) -> Readable:
    declared = project.config.stream(stream).source
    if isinstance(declared, RateDeclaration):
        return RateSource(declared)
    raise PermanentError(
        f"the input of {stream} cannot be computed again: it comes from a {declared.kind} source",
        hint="pass the source that reads it",
    )


def _missing(log: Sequence[Epoch], entries: Sequence[LedgerEntry], last_epoch: int) -> list[int]:
    both = {epoch.epoch for epoch in log} & {entry.epoch for entry in entries}
    return sorted(set(range(last_epoch + 1)) - both)


def _plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Convert times to microseconds, numbers to int64 (float64 with nulls), and text to Python strings."""
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
