"""The files of a table, and one that has the rows of many, or the first rows of one.

The new file is compared with the old ones, row by row, before it is used.
"""

import json
import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.table_epochs import EpochIndex, EpochRange, read_index
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import open_filesystem
from holdfast.streaming.sinks.delta.lineage import DIGEST, INDEX, epoch_of, merged_epochs
from holdfast.streaming.sinks.delta.table import WITHOUT_CLEANUP, partition_values

PORTION_BYTES = 64 * 1024**2
PORTION_ROWS = 1_000_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableFolder:
    """Where the files of a table are."""

    files: fs.FileSystem
    root: str

    @classmethod
    def open(cls, path: str, connect: Callable[[], S3Connection]) -> "TableFolder":
        return cls(*open_filesystem(path, connect))

    def resolve(self, path: str) -> str:
        """The path of a file of the table in its file system."""
        return f"{self.root}/{path}"

    def delete(self, folder: str) -> None:
        """Delete a folder that was staged and not committed; what is left is found as orphaned later."""
        try:
            self.files.delete_dir(self.resolve(folder))
        except OSError as error:
            log.warning("staged files not deleted, left to retention: %s: %s", folder, error)


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
        LiveFile(
            path=unquote(row["path"]),
            size_bytes=row["size_bytes"],
            rows=row["num_records"] or 0,  # other programs may not count the rows of their files
        )
        for row in columns
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
    """Epochs that are in two merged ranges, in one and in files of their own, or in two folders of their own."""
    ranges = merged_ranges(files)
    twice: list[int] = []
    for before, after in pairwise(ranges):
        twice += range(after.first, min(before.last, after.last) + 1)
    firsts = [epochs.first for epochs in ranges]
    folders = {"/".join(PurePosixPath(file.path).parts[:2]) for file in files}
    own = Counter(epoch for folder in folders if (epoch := epoch_of(f"{folder}/")) is not None)
    for epoch, count in own.items():
        place = bisect_right(firsts, epoch) - 1
        if count > 1 or (place >= 0 and epoch in ranges[place]):
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


@dataclass(frozen=True, slots=True)
class MergedFooter:
    """What a merged file says of its rows: the digest of its whole range, and how many there are of each epoch.

    The digest is empty if it is unknown; a file that an older version of Holdfast has merged has no index.
    """

    digest: str = ""
    index: EpochIndex | None = None


def read_footer(folder: TableFolder, path: str) -> MergedFooter:
    """Read the footer of a merged file."""
    full = folder.resolve(path)
    with folder.files.open_input_file(full) as opened, pq.ParquetFile(opened) as file:
        values = file.metadata.metadata or {}
    return MergedFooter(
        digest=values.get(DIGEST.encode(), b"").decode(),
        index=read_index(values.get(INDEX.encode(), b"").decode()),
    )


def write_file(
    source: TableFolder,
    files: Sequence[LiveFile],
    target: TableFolder,
    path: str,
    *,
    schema: pa.Schema,
    digest: str,
    index: EpochIndex,
) -> LiveFile:
    """Write the first rows of some files into one, as many as the index has; raises if others are in it then."""
    full, most = target.resolve(path), index.rows
    if isinstance(target.files, fs.LocalFileSystem):
        target.files.create_dir(str(PurePosixPath(full).parent), recursive=True)
    with pq.ParquetWriter(full, schema, filesystem=target.files) as writer:
        for groups in _portions(source, files, most):
            portion = pa.concat_tables(_fit(group, schema, path) for group in groups)
            writer.write_table(portion.combine_chunks(), row_group_size=portion.num_rows)
        writer.add_key_value_metadata({DIGEST: digest, INDEX: index.to_text()})
    _require_same_rows(_portions(source, files, most), target, path, rows=most)
    return LiveFile(path=path, size_bytes=target.files.get_file_info(full).size, rows=most)


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
        f"{path} was not written: a file before has other columns than the table: {cause}",
        hint="write the table again with the columns that it has now",
    )


def _require_same_rows(
    portions: Iterator[list[pa.Table]], target: TableFolder, path: str, *, rows: int
) -> None:
    """Compare each row of a new file with the rows of the files before, as they are."""
    full = target.resolve(path)
    with target.files.open_input_file(full) as opened, pq.ParquetFile(opened) as written:
        numbers, count = written.num_row_groups, written.metadata.num_rows
        same = [
            number < numbers and _is_same(written.read_row_group(number), groups)
            for number, groups in enumerate(portions)
        ]
    if count != rows or len(same) != numbers or not all(same):
        raise _other_rows(path)


def _other_rows(path: str) -> PermanentError:
    return PermanentError(
        f"{path} was not written: it does not have the rows of the files before",
        hint="check the disk, and the files of the table with the job `rehash_output`",
    )


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
    return bool(begin == merged.num_rows)


def _has_values(merged: pa.ChunkedArray, before: pa.ChunkedArray) -> bool:
    try:
        merged = merged.cast(before.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    # Arrow takes NaN for different from itself.
    return merged.equals(before) or repr(merged.to_pylist()) == repr(before.to_pylist())


def _portions(
    folder: TableFolder, sources: Sequence[LiveFile], most: int
) -> Iterator[list[pa.Table]]:
    """The first rows of some files in their order and as they are, in portions of a bounded size."""
    gathered: list[pa.Table] = []
    rows, size = 0, 0
    for group in _row_groups(folder, sources, most):
        if gathered and (rows + group.num_rows > PORTION_ROWS or size > PORTION_BYTES):
            yield gathered
            gathered, rows, size = [], 0, 0
        gathered.append(group)
        rows, size = rows + group.num_rows, size + group.nbytes
    if gathered:
        yield gathered


def _row_groups(folder: TableFolder, sources: Sequence[LiveFile], most: int) -> Iterator[pa.Table]:
    """The first rows of some files; raises if a file has not the rows that the table says."""
    for source in sources:
        with (
            folder.files.open_input_file(folder.resolve(source.path)) as opened,
            # Spark's older timestamps reach further than nanoseconds do.
            pq.ParquetFile(opened, coerce_int96_timestamp_unit="us") as file,
        ):
            if file.metadata.num_rows != source.rows:
                raise _other_rows(source.path)
            for number in range(file.num_row_groups if most else 0):
                group = file.read_row_group(number, use_threads=False)  # most files are small
                group = group.slice(0, most)
                most -= group.num_rows
                if group.num_rows:
                    yield group.replace_schema_metadata(None)


def replace_files(
    table: DeltaTable,
    *,
    removed: Sequence[LiveFile],
    added: Sequence[LiveFile],
    commit: CommitProperties,
    at: float,
    data_change: bool,
) -> None:
    """Commit files in place of others."""
    millis = int(at * 1000)
    table.create_write_transaction(
        [
            *(add_action(file, at, data_change=data_change) for file in added),
            *(
                RemoveAction(
                    path=file.path,
                    data_change=data_change,
                    deletion_timestamp=millis,
                    size=file.size_bytes,
                    partition_values=partition_values(file.path),
                )
                for file in removed
            ),
        ],
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=commit,
        post_commithook_properties=WITHOUT_CLEANUP,
    )


def add_action(file: LiveFile, at: float, *, data_change: bool) -> AddAction:
    """The entry of a file in the log of its table."""
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=partition_values(file.path),
        modification_time=int(at * 1000),
        data_change=data_change,
        stats=json.dumps({"numRecords": file.rows} if file.rows else {}),
    )
