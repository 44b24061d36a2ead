"""The files of a table, and one that has the rows of many.

The new file is compared with the old ones, row by row, before it is used.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError
from holdfast.streaming.sinks.lineage import DIGEST, EpochRange, epoch_of, merged_epochs

PORTION_BYTES = 64 * 1024**2
PORTION_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A file of the newest version of a table; its path is relative to the table."""

    path: str
    size_bytes: int
    rows: int

    @property
    def epochs(self) -> EpochRange | None:
        """Which epochs its rows are of; `None` if another program wrote it."""
        epoch = epoch_of(self.path)
        return merged_epochs(self.path) if epoch is None else EpochRange(epoch, epoch)

    @property
    def partition(self) -> str:
        """The folders of its partition, below that of its epochs."""
        return "/".join(PurePosixPath(self.path).parts[2:-1])


def live_files(table: DeltaTable) -> list[LiveFile]:
    """The files of a table as it was last read."""
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = actions.select(["path", "size_bytes", "num_records"]).to_pylist()
    return [
        LiveFile(path=unquote(row["path"]), size_bytes=row["size_bytes"], rows=row["num_records"])
        for row in columns
        if row["num_records"] is not None  # Holdfast counts the rows of each file
    ]


def merged_ranges(files: Sequence[LiveFile]) -> list[EpochRange]:
    """The ranges of epochs that were merged, in order."""
    return sorted({epochs for file in files if (epochs := merged_epochs(file.path))})


def rows_by_epoch(files: Sequence[LiveFile]) -> dict[int, int]:
    """The rows of each epoch that has files of its own."""
    rows: Counter[int] = Counter()
    for file in files:
        epoch = epoch_of(file.path)
        if epoch is not None:
            rows[epoch] += file.rows
    return dict(rows)


def epochs_twice(files: Sequence[LiveFile]) -> list[int]:
    """Epochs that are in two merged ranges, or in one and in files of their own."""
    ranges = merged_ranges(files)
    twice: list[int] = []
    for before, after in pairwise(ranges):
        twice += range(after.first, min(before.last, after.last) + 1)
    firsts = [epochs.first for epochs in ranges]
    for epoch in rows_by_epoch(files):
        place = bisect_right(firsts, epoch) - 1
        if place >= 0 and epoch in ranges[place]:
            twice.append(epoch)
    return sorted(twice)


def file_schema(table: DeltaTable) -> pa.Schema:
    """The columns that a new file of the table has: all but those that are in its path."""
    partitions = table.metadata().partition_columns
    fields = pa.schema(table.schema().to_arrow())
    return pa.schema(
        [
            pa.field(field.name, field.type)  # a file before the column was added has none
            for field in fields
            if field.name not in partitions
        ]
    )


def write_merged(
    files: fs.FileSystem,
    root: str,
    sources: Sequence[LiveFile],
    target: str,
    *,
    schema: pa.Schema,
    digest: str,
) -> LiveFile:
    """Write the rows of some files into one, in their order; raises if it does not have the same rows then."""
    path = f"{root}/{target}"
    if isinstance(files, fs.LocalFileSystem):
        files.create_dir(str(PurePosixPath(path).parent), recursive=True)
    with pq.ParquetWriter(path, schema, filesystem=files) as writer:
        for groups in _portions(files, root, sources):
            portion = pa.concat_tables(_fit(group, schema, path) for group in groups)
            writer.write_table(portion.combine_chunks(), row_group_size=portion.num_rows)
        writer.add_key_value_metadata({DIGEST: digest})
    rows = _require_same_rows(files, root, sources, path)
    size = files.get_file_info(path).size
    return LiveFile(path=target, size_bytes=size, rows=rows)


def _fit(group: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """The rows with all columns of the table: a column that was added later is null in older files."""
    unknown = sorted(set(group.column_names) - set(schema.names))
    if unknown:
        raise _other_columns(path, f"the table has no column {unknown[0]}")
    try:
        columns = [
            group[field.name].cast(field.type)
            if field.name in group.column_names
            else pa.nulls(group.num_rows, field.type)
            for field in schema
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _other_columns(path, str(error)) from error
    return pa.Table.from_arrays(columns, schema=schema)


def _other_columns(path: str, cause: str) -> PermanentError:
    return PermanentError(
        f"the files of {path} were not merged: a file has other columns than the table: {cause}",
        hint="write the table again with the columns that it has now",
    )


def _require_same_rows(
    files: fs.FileSystem, root: str, sources: Sequence[LiveFile], path: str
) -> int:
    """Compare each row of a merged file with the files before, as they are."""
    with files.open_input_file(path) as opened, pq.ParquetFile(opened) as merged:
        rows, numbers = int(merged.metadata.num_rows), merged.num_row_groups
        portions = enumerate(_portions(files, root, sources))
        same = [
            number < numbers and _is_same(merged.read_row_group(number), groups)
            for number, groups in portions
        ]
    if rows != sum(file.rows for file in sources) or len(same) != numbers or not all(same):
        raise PermanentError(
            f"the files of {path} were not merged: they do not have the rows of the {len(sources)} files before",
            hint="check the disk, and the files of the table with the job `rehash_output`",
        )
    return rows


def _is_same(merged: pa.Table, groups: Sequence[pa.Table]) -> bool:
    """Whether rows have all columns and values of those before, in their order, and nothing else."""
    begin = 0
    for group in groups:
        rows = merged.slice(begin, group.num_rows)
        begin += group.num_rows
        added = set(rows.column_names) - set(group.column_names)
        if any(rows[name].null_count < rows.num_rows for name in added):
            return False
        if not all(
            name in rows.column_names and _has_values(rows[name], group[name])
            for name in group.column_names
        ):
            return False
    return begin == int(merged.num_rows)


def _has_values(merged: pa.ChunkedArray, before: pa.ChunkedArray) -> bool:
    try:
        merged = merged.cast(before.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    # Arrow takes NaN for different from itself.
    return merged.equals(before) or repr(merged.to_pylist()) == repr(before.to_pylist())


def _portions(
    files: fs.FileSystem, root: str, sources: Sequence[LiveFile]
) -> Iterator[list[pa.Table]]:
    """The rows of some files in their order and as they are, in portions of a bounded size."""
    gathered: list[pa.Table] = []
    rows, size = 0, 0
    for group in _row_groups(files, root, sources):
        if gathered and (rows + group.num_rows > PORTION_ROWS or size > PORTION_BYTES):
            yield gathered
            gathered, rows, size = [], 0, 0
        gathered.append(group)
        rows, size = rows + group.num_rows, size + group.nbytes
    if gathered:
        yield gathered


def _row_groups(files: fs.FileSystem, root: str, sources: Sequence[LiveFile]) -> Iterator[pa.Table]:
    for source in sources:
        with (
            files.open_input_file(f"{root}/{source.path}") as opened,
            # Spark's older timestamps reach further than nanoseconds do.
            pq.ParquetFile(opened, coerce_int96_timestamp_unit="us") as file,
        ):
            for number in range(file.num_row_groups):
                group = file.read_row_group(number, use_threads=False)  # most files are small
                if group.num_rows:
                    yield group.replace_schema_metadata(None)


def read_digest(files: fs.FileSystem, path: str) -> str:
    """The digest of all rows of a merged range, from one of its files; empty if it is unknown."""
    with files.open_input_file(path) as opened, pq.ParquetFile(opened) as file:
        return ((file.metadata.metadata or {}).get(DIGEST.encode()) or b"").decode()
