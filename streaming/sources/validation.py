"""Validation: which records of a file are rejected, and why.

That is decided once, with the epoch that gets the file, and written into the epoch log. Later reads of the
file only leave those records out: a replay reads the same rows, even if the rules have changed since.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyarrow import fs

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.streaming.sources.formats import Block, conform, read_blocks

LONGEST_RECORD = 4_096  # characters of a record that are kept

Rules: TypeAlias = Callable[[pa.RecordBatch], pa.StringArray]
"""For each row the reason why it is rejected, or null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedBatch:
    """How many rows a file has, and the numbers of its rejected records (lines or rows, from 1 on)."""

    rows: int
    aside: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecord:
    """A record that is no input: its position in the file, and the reason."""

    position: int
    reason: str
    record: str


@dataclass(frozen=True, slots=True)
class RecordValidator:
    """Validates files of one declared format and schema; a record of a text file is a line."""

    declared: FilesDeclaration
    schema: pa.Schema
    rules: Rules | None = None

    def validate(self, filesystem: fs.FileSystem, path: str) -> ValidatedBatch:
        """Decide which records of a file are rejected."""
        rows, aside = 0, []
        for block in read_blocks(self.declared, self.schema, filesystem, path):
            unreadable = block.unreadable()
            readable = [number for number in block.numbers if number not in unreadable]
            objections = zip(readable, self._objections(block, readable), strict=True)
            refused = {number for number, objection in objections if objection is not None}
            rows += len(readable) - len(refused)
            aside += sorted(unreadable | refused)
        return ValidatedBatch(rows=rows, aside=tuple(aside))

    def read(
        self, filesystem: fs.FileSystem, path: str, aside: Collection[int]
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file without its rejected records."""
        rejected = frozenset(aside)
        for block in read_blocks(self.declared, self.schema, filesystem, path):
            numbers = {number for number in block.numbers if number not in rejected}
            if not numbers:
                continue
            try:
                rows = block.rows(numbers)
            except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
                raise PermanentError(
                    f"{path} can no longer be read as when its epoch was decided: {error}",
                    hint="declare source.schema and source.format as they were when the epoch was decided",
                ) from error
            yield conform(rows, self.schema)

    def read_rejected(
        self, filesystem: fs.FileSystem, path: str, aside: Collection[int]
    ) -> Iterator[RejectedRecord]:
        """Read the rejected records, each with the reason."""
        rejected = frozenset(aside)
        for block in read_blocks(self.declared, self.schema, filesystem, path):
            faults = {number: block.fault(number) for number in block.numbers if number in rejected}
            readable = [number for number, fault in faults.items() if fault is None]
            faults |= zip(readable, self._objections(block, readable), strict=True)
            for number, fault in faults.items():
                yield RejectedRecord(
                    position=number,
                    reason=fault or "rejected when its epoch was decided",
                    record=block.record(number)[:LONGEST_RECORD],
                )

    def _objections(self, block: Block, readable: Sequence[int]) -> Sequence[str | None]:
        """The rules' objection to each of these records, if any."""
        if self.rules is None or not readable:
            return [None] * len(readable)
        objections: list[str | None] = self.rules(
            conform(block.rows(set(readable)), self.schema)
        ).to_pylist()
        return objections
