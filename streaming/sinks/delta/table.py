"""Opening a stream's Delta table, or creating it.

It does not import Spark, because playbooks use it, too.
"""

import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options, open_filesystem

CHECKPOINT_COMMITS = 200
NAMED_LONGER_SECONDS = 2 * 3600.0
NOT_PLAIN = frozenset({"deletionVectors", "columnMapping"})
"""With these features the files of a table are not its rows."""
# Looking for old log files with each commit takes longer with each commit.
WITHOUT_CLEANUP = PostCommitHookProperties(cleanup_expired_logs=False)
DEAD_LETTERS = pa.schema(
    [
        ("epoch", pa.int64()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("record", pa.string()),
    ]
)
OWN_ENTRIES = re.compile("data|_delta_log|")  # the empty one is the folder itself on S3
_OWN_DURATION = re.compile(r"interval \d+ seconds")
_OWN_FILE = re.compile(r"data/\d{12}-")
_INTERVAL = "delta.checkpointInterval"
STAGED = re.compile(r"\d{12}-.+|")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


log = logging.getLogger(__name__)


def find_table(path: str, options: dict[str, str]) -> DeltaTable | None:
    """Open the table; `None` if there is none."""
    with translate_errors(path):
        try:
            return DeltaTable(path, storage_options=options)
        except TableNotFoundError:
            return None


def require_plain_files(table: DeltaTable, path: str, *, done: str) -> None:
    """Raise if the rows of a table are not those of its files; `done` is what cannot be done then."""
    mode = table.metadata().configuration.get("delta.columnMapping.mode") or "none"
    features = NOT_PLAIN & set(table.protocol().reader_features or ())
    if mode != "none":
        features |= {"columnMapping"}
    if features:
        raise PermanentError(
            f"the table {path} cannot be {done}: it uses {', '.join(sorted(features))}",
            hint="use the program that has turned this on, or write the table again without it",
        )


def make_table(
    path: str,
    connect: Callable[[], S3Connection],
    *,
    schema: Schema,
    partition_by: tuple[str, ...],
    keep_seconds: float | None = None,
    name: str | None = None,
) -> DeltaTable:
    """Open the table, or create it in an empty folder; another replica may create it at the same time.

    Older versions of a new table can be read for `keep_seconds`, or as long as Delta's own default. Of several that
    are created at once, each upon the other, all have the same `name`: Delta's own id changes with each.
    """
    options = delta_options(path, connect)
    table = find_table(path, options)
    if table is not None:
        return table
    with translate_errors(path):
        require_empty(path, connect)
        try:
            return DeltaTable.create(
                path,
                schema=schema,
                mode="ignore",
                partition_by=list(partition_by),
                storage_options=options,
                name=name,
                configuration=_properties(keep_seconds),
            )
        except CommitFailedError:
            return DeltaTable(path, storage_options=options)


def _properties(keep_seconds: float | None) -> dict[str, str | None]:
    """A commit reads all commits since the last checkpoint, and lists all that are in the log.

    A checkpoint names all files that were removed recently. The cost of both is least at about a checkpoint every hundred
    commits; the compaction deletes most of the older ones.
    """
    properties: dict[str, str | None] = {_INTERVAL: str(CHECKPOINT_COMMITS)}
    if keep_seconds is not None:
        # The compaction deletes merged files after this time, and finds them as long as the log names them.
        named = keep_seconds + NAMED_LONGER_SECONDS
        properties["delta.logRetentionDuration"] = f"interval {math.ceil(keep_seconds)} seconds"
        properties["delta.deletedFileRetentionDuration"] = f"interval {math.ceil(named)} seconds"
    return properties


def adopt_window(table: DeltaTable, keep_seconds: float) -> bool:
    """Keep older versions of the table as long as the config says now; `False` if its stream has committed meanwhile.

    Durations that another program has chosen stay. A table without any gets them if a stream has made it.
    """
    current = table.metadata().configuration
    wanted = {
        name: value
        for name, value in _properties(keep_seconds).items()
        if value is not None and name.endswith("RetentionDuration")
    }
    own = {name for name in wanted if _OWN_DURATION.fullmatch(current.get(name) or "")}
    if not wanted.keys() & current.keys() and _is_made_by_stream(table):
        own = set(wanted)
    changed = {name: wanted[name] for name in own if current.get(name) != wanted[name]}
    if not changed:
        return True
    try:
        table.alter.set_table_properties(
            changed,
            commit_properties=CommitProperties(max_commit_retries=0),
            post_commithook_properties=WITHOUT_CLEANUP,
        )
    except CommitFailedError as error:
        log.info("how long versions of %s are kept was not changed yet: %s", table.table_uri, error)
        return False
    return True


def _is_made_by_stream(table: DeltaTable) -> bool:
    """Whether a table has the interval of checkpoints that streams set or, as one of an older version, only their files."""
    interval = table.metadata().configuration.get(_INTERVAL)
    if interval is not None:
        return interval == str(CHECKPOINT_COMMITS)
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    return all(_OWN_FILE.match(path) for path in paths)


def require_empty(path: str, connect: Callable[[], S3Connection]) -> None:
    """Raise if a table would be created among other files; another replica may have created it meanwhile."""
    foreign = _find_foreign_entry(path, connect)
    if foreign is not None and find_table(path, delta_options(path, connect)) is None:
        raise PermanentError(
            f"no table is created in {path}: it is not empty, it has {foreign}",
            hint="declare a path of its own for the table, or move the other files away",
        )


def _find_foreign_entry(path: str, connect: Callable[[], S3Connection]) -> str | None:
    """A file or folder at the path that no replica has written; replicas stage files before there is a table."""
    files, root = open_filesystem(path, connect)
    for folder, is_own in ((root, OWN_ENTRIES), (f"{root}/data", STAGED)):
        try:
            entries = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        except FileNotFoundError:  # it was created between Arrow's two looks
            entries = []
        for entry in entries:
            if is_own.fullmatch(entry.base_name) is None:
                return str(entry.path).removeprefix(f"{root}/")
    return None


def make_dead_letters(
    path: str,
    connect: Callable[[], S3Connection],
    *,
    keep_seconds: float | None = None,
    name: str | None = None,
) -> DeltaTable:
    """Open the table of a stream's dead letters, or create it."""
    schema = Schema.from_arrow(DEAD_LETTERS)
    return make_table(
        path, connect, schema=schema, partition_by=(), keep_seconds=keep_seconds, name=name
    )


def commit_nothing(table: DeltaTable, commit: CommitProperties) -> None:
    """Commit the properties without a change of rows."""
    table.create_write_transaction(
        [],
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=commit,
        post_commithook_properties=WITHOUT_CLEANUP,
    )


def require_fit(
    table: DeltaTable, path: str, schema: Schema, partition_by: tuple[str, ...]
) -> None:
    """Raise if the table has other columns or partitions than the stream's output."""
    table_columns = {field.name: str(field.type) for field in table.schema().fields}
    output_columns = {field.name: str(field.type) for field in schema.fields}
    if table_columns != output_columns:
        raise PermanentError(
            f"the stream's output does not fit the table {path}: "
            f"the table has {table_columns}, the stream gives {output_columns}",
            hint="declare another sink.path, or build the columns that the table has",
        )
    table_partitions = table.metadata().partition_columns
    if list(partition_by) != list(table_partitions):
        raise PermanentError(
            f"the table {path} is partitioned by {table_partitions}, "
            f"the stream declares {list(partition_by)}",
            hint="declare the partitions that the table has, or another sink.path",
        )


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Turn an error of the table's storage into a transient or a permanent one."""
    try:
        yield
    except (DeltaProtocolError, SchemaMismatchError, PermissionError) as error:
        raise PermanentError(
            f"the table {path} cannot be written: {error}",
            hint="check the table's protocol and columns, and the write permissions of its folder",
        ) from error
    except (DeltaError, OSError) as error:
        raise TransientError(
            f"the table {path} cannot be read or written: {error}",
            hint="wait: the epoch is retried until the storage is available",
        ) from error


def partition_values(path: str) -> dict[str, str | None]:
    """The values of a file's partition columns, as Hive writes them into its path from the table on."""
    pairs = [part.split("=", 1) for part in path.split("/") if "=" in part]
    return {
        unquote(name): None if value == NULL_PARTITION else unquote(value) for name, value in pairs
    }
