"""Reading parquet, JSON-lines and CSV files as Arrow batches of a declared schema.

Where records may be unreadable, a file is read block by block: lines of text, or rows of a parquet file.
All lines of a block are parsed at once. Only if that fails, the block is halved until the unreadable lines
stand alone: so one parser decides, and good lines cost no more than usual. Lines that do not look complete
are parsed first, one by one: most bad lines are among them.
"""

import csv as plain_csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyarrow import csv, fs, json, parquet

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError

BLOCK_BYTES = 8 << 20
BLOCK_LINES = 50_000
Line: TypeAlias = tuple[int, bytes]
"""The number of a line, from 1 on, and its bytes."""


def read_rows(
    declared: FilesDeclaration, filesystem: fs.FileSystem, path: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read a file batch by batch in the declared columns; a missing value is null."""
    try:
        with filesystem.open_input_file(path) as opened:
            for batch in _batches(declared, opened, schema):
                yield conform(batch, schema)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        if "Empty JSON" in str(error) or "Empty CSV" in str(error):
            return
        raise PermanentError(
            f"{path} does not hold {declared.format} rows of the declared columns: {error}",
            hint="repair or remove the file, correct source.schema, or declare source.dead_letters to "
            "set such records aside; then start the stream again",
        ) from error


def count_rows(
    declared: FilesDeclaration, filesystem: fs.FileSystem, path: str, schema: pa.Schema
) -> int:
    """Count the rows of a file: from its footer if it has one, else by reading it."""
    if declared.format == "parquet":
        try:
            with filesystem.open_input_file(path) as opened:
                return int(parquet.read_metadata(opened).num_rows)
        except pa.ArrowInvalid as error:
            raise PermanentError(
                f"{path} is not a parquet file: {error}",
                hint="repair or remove the file, then start the stream again",
            ) from error
    return sum(batch.num_rows for batch in read_rows(declared, filesystem, path, schema))


def _batches(
    declared: FilesDeclaration, opened: pa.NativeFile, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if opened.size() == 0:
        return iter(())
    match declared.format:
        case "parquet":
            file = parquet.ParquetFile(opened)
            present = [name for name in schema.names if name in file.schema_arrow.names]
            return iter(file.iter_batches(columns=present))
        case "jsonl":
            return iter(json.open_json(opened, parse_options=json_parsing(schema)))
        case "csv":
            names = None if declared.csv_header else schema.names
            return iter(
                csv.open_csv(
                    opened,
                    read_options=csv.ReadOptions(column_names=names),
                    convert_options=csv_conversion(schema),
                )
            )


def json_parsing(schema: pa.Schema) -> json.ParseOptions:
    """Options to parse JSON into the declared columns; others are ignored."""
    return json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")


def csv_conversion(schema: pa.Schema) -> csv.ConvertOptions:
    """Options to convert CSV into the declared columns; a missing value is null."""
    return csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        include_missing_columns=True,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring a batch into the declared columns, in their order and types; a missing column is null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class Block(Protocol):
    """Some records of a file, identified by their numbers."""

    @property
    def numbers(self) -> Collection[int]:
        """The positions of the records in the file, from 1 on, in order."""

    def unreadable(self) -> set[int]:
        """The numbers of the records that are no rows of the declared columns."""

    def rows(self, numbers: Collection[int]) -> pa.RecordBatch:
        """The records with these numbers, in their order, as Arrow reads them."""

    def fault(self, number: int) -> str | None:
        """Why a record cannot be read; `None` if it can."""

    def record(self, number: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """How lines of one file are read: parsed many at once, or a quick check of one of them."""

    parse: Callable[[bytes], pa.Table]
    looks_whole: Callable[[bytes], bool]

    def rows(self, lines: Sequence[bytes]) -> pa.RecordBatch:
        """Parse at least one line into one row each; raises if any cannot be parsed."""
        table = self.parse(b"\n".join(lines))
        if table.num_rows != len(lines):
            raise pa.ArrowInvalid(f"{table.num_rows} records on {len(lines)} lines")
        return table.combine_chunks().to_batches()[0]

    def unreadable(self, lines: Sequence[Line]) -> Iterator[int]:
        """Find the numbers of the lines that are no row, by bisection."""
        if not lines or self.fault([line for _, line in lines]) is None:
            return
        if len(lines) == 1:
            yield lines[0][0]
            return
        middle = len(lines) // 2
        yield from self.unreadable(lines[:middle])
        yield from self.unreadable(lines[middle:])

    def fault(self, lines: Sequence[bytes]) -> str | None:
        """Why these lines cannot be parsed together; `None` if they can."""
        try:
            self.rows(lines)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            return str(error)
        return None


@dataclass(frozen=True, slots=True)
class Lines:
    """A block of a text file, without its empty lines."""

    lines: Mapping[int, bytes]
    reading: Reading

    @property
    def numbers(self) -> Collection[int]:
        return self.lines.keys()

    def unreadable(self) -> set[int]:
        """Check lines that do not look complete one by one, the rest by bisection."""
        looks_whole = self.reading.looks_whole
        doubtful = [number for number, line in self.lines.items() if not looks_whole(line)]
        unreadable = {number for number in doubtful if self.fault(number) is not None}
        rest = [line for line in self.lines.items() if line[0] not in unreadable]
        return unreadable.union(self.reading.unreadable(rest))

    def rows(self, numbers: Collection[int]) -> pa.RecordBatch:
        """Parse these lines at once."""
        return self.reading.rows([line for at, line in self.lines.items() if at in numbers])

    def fault(self, number: int) -> str | None:
        """Arrow's error for a line."""
        return self.reading.fault([self.lines[number]])

    def record(self, number: int) -> str:
        return self.lines[number].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch of a parquet file; all of its rows can be read."""

    batch: pa.RecordBatch
    first: int

    @property
    def numbers(self) -> Collection[int]:
        return range(self.first, self.first + self.batch.num_rows)

    def unreadable(self) -> set[int]:
        return set()

    def rows(self, numbers: Collection[int]) -> pa.RecordBatch:
        """Take these rows."""
        return self.batch.filter(pa.array([number in numbers for number in self.numbers]))

    def fault(self, number: int) -> str | None:
        """Each of them can be read."""
        return None

    def record(self, number: int) -> str:
        """The row's values."""
        return str(self.batch.slice(number - self.first, 1).to_pylist()[0])


def read_blocks(
    declared: FilesDeclaration, schema: pa.Schema, filesystem: fs.FileSystem, path: str
) -> Iterator[Block]:
    """Read all records of a file, block by block."""
    if declared.format == "parquet":
        with filesystem.open_input_file(path) as opened:
            file, first = parquet.ParquetFile(opened), 1
            present = [name for name in schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=present):
                yield Rows(batch, first)
                first += batch.num_rows
        return
    with filesystem.open_input_stream(path) as opened:
        lines = enumerate(_lines(opened), start=1)
        reading = _jsonl(schema) if declared.format == "jsonl" else _csv(declared, schema, lines)
        written = (line for line in lines if line[1].strip())
        while block := dict(islice(written, BLOCK_LINES)):
            yield Lines(block, reading)


def _jsonl(schema: pa.Schema) -> Reading:
    parsing = json_parsing(schema)

    def parse(block: bytes) -> pa.Table:
        reading = json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        return json.read_json(pa.BufferReader(block), reading, parsing)

    def looks_whole(line: bytes) -> bool:
        text = line.strip()
        return text.startswith(b"{") and text.endswith(b"}")

    return Reading(parse, looks_whole)


def _csv(declared: FilesDeclaration, schema: pa.Schema, lines: Iterator[Line]) -> Reading:
    """Make the reading of a CSV file; a header is removed from the lines."""
    names = schema.names
    if declared.csv_header:
        _, header = next(lines, (0, b""))
        names = next(plain_csv.reader([header.decode("utf-8-sig")]), [])
    reading = csv.ReadOptions(column_names=names, use_threads=False)
    conversion = csv_conversion(schema)

    def parse(block: bytes) -> pa.Table:
        return csv.read_csv(
            pa.BufferReader(block), read_options=reading, convert_options=conversion
        )

    columns = {field.name: _usual(field.type) for field in schema}
    usual = re.compile(b",".join(columns.get(name, b"[^,]*") for name in names) + b"\r?")
    return Reading(parse, lambda line: b'"' in line or usual.fullmatch(line) is not None)


def _usual(kind: pa.DataType) -> bytes:
    """A pattern of the usual values of this type, for a quick check."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return rb"[-+.\deE]*"
    return rb"[-+:.\dTZ ]*" if pa.types.is_timestamp(kind) else rb"[^,]*"


def _lines(opened: pa.NativeFile) -> Iterator[bytes]:
    rest = b""
    while block := opened.read(BLOCK_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest
