"""Reading a file whose records may be bad: rows that can be read, and records that are set aside.

A block of lines is parsed at once, as if nothing were wrong with it. Only if something is, it is halved
until the lines that cannot be read stand alone: so one parser decides, and good lines cost what they
always do. A record that can be read may still meet an objection of the user's rules.
"""

import csv as plain_csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
from pyarrow import csv, fs, json, parquet

from configs.sources import FilesSource as FilesDeclaration
from streaming.sources.formats import conformed, csv_conversion, json_parsing

BLOCK_BYTES = 8 << 20
BLOCK_LINES = 50_000
LONGEST_RECORD = 4_096  # characters of a record that are kept

Rules: TypeAlias = Callable[[pa.RecordBatch], pa.StringArray]
"""For each row why it is set aside, or null."""
Parse: TypeAlias = Callable[[bytes], pa.Table]
Line: TypeAlias = tuple[int, bytes]
"""Its number, from 1 on, and what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A record that is no input: where it stands in its file (line or row, from 1 on), and why."""

    position: int
    reason: str
    record: str


@dataclass(frozen=True, slots=True)
class Sieve:
    """Reads files of one declared format and schema; a record of a text file is a line."""

    declared: FilesDeclaration
    schema: pa.Schema
    rules: Rules | None = None

    def sift(self, filesystem: fs.FileSystem, path: str) -> Iterator[pa.RecordBatch | SetAside]:
        """The rows of a file in batches, and what is set aside between them."""
        if self.declared.format == "parquet":
            yield from self._sift_parquet(filesystem, path)
            return
        with filesystem.open_input_stream(path) as opened:
            lines = enumerate(_lines(opened), start=1)
            parse = self._parser(lines)
            written = (line for line in lines if line[1].strip())
            while block := list(islice(written, BLOCK_LINES)):
                yield from self._halved(block, parse)

    def _sift_parquet(
        self, filesystem: fs.FileSystem, path: str
    ) -> Iterator[pa.RecordBatch | SetAside]:
        with filesystem.open_input_file(path) as opened:
            file, before = parquet.ParquetFile(opened), 0
            known = [name for name in self.schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=known):
                first, before = before + 1, before + batch.num_rows
                numbers = range(first, before + 1)
                yield from self._judged(batch, [(number, b"") for number in numbers])

    def _parser(self, lines: Iterator[Line]) -> Parse:
        """How a block of lines is read; a header is taken off the lines."""
        if self.declared.format == "jsonl":
            parsing = json_parsing(self.schema)
            return lambda block: json.read_json(
                pa.BufferReader(block),
                read_options=json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=parsing,
            )
        names = self.schema.names
        if self.declared.csv_header:
            _, header = next(lines, (0, b""))
            names = next(plain_csv.reader([header.decode("utf-8-sig")]), [])
        reading = csv.ReadOptions(column_names=names, use_threads=False)
        conversion = csv_conversion(self.schema)
        return lambda block: csv.read_csv(
            pa.BufferReader(block), read_options=reading, convert_options=conversion
        )

    def _halved(self, lines: Sequence[Line], parse: Parse) -> Iterator[pa.RecordBatch | SetAside]:
        try:
            batch = _parsed(lines, parse)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            if len(lines) == 1:
                yield _aside(lines[0], str(error))
                return
            middle = len(lines) // 2
            yield from self._halved(lines[:middle], parse)
            yield from self._halved(lines[middle:], parse)
            return
        yield from self._judged(batch, lines)

    def _judged(
        self, batch: pa.RecordBatch, lines: Sequence[Line]
    ) -> Iterator[pa.RecordBatch | SetAside]:
        """Apply the rules to rows, each of which stands on its line."""
        rows = conformed(batch, self.schema)
        objections = None if self.rules is None else self.rules(rows)
        if objections is None or objections.null_count == len(objections):
            yield rows
            return
        yield rows.filter(objections.is_null())
        for at, reason in enumerate(objections.to_pylist()):
            if reason is not None:
                yield _aside(lines[at], reason, rows.slice(at, 1))


def _lines(opened: pa.NativeFile) -> Iterator[bytes]:
    rest = b""
    while block := opened.read(BLOCK_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _parsed(lines: Sequence[Line], parse: Parse) -> pa.RecordBatch:
    table = parse(b"\n".join(line for _, line in lines))
    if table.num_rows != len(lines):
        raise pa.ArrowInvalid(f"{table.num_rows} records on {len(lines)} lines")
    return table.combine_chunks().to_batches()[0]


def _aside(line: Line, reason: str, row: pa.RecordBatch | None = None) -> SetAside:
    number, written = line
    record = str(row.to_pylist()[0]) if row and not written else written.decode("utf-8", "replace")
    return SetAside(position=number, reason=reason, record=record[:LONGEST_RECORD])
