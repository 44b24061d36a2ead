"""Merging the files of a table: the rows of many epochs in few files, by one commit that changes no row.

The new files are written and compared with the old ones before the commit. It succeeds only on the version of the
table that was read last, with all old files in it; a stream that commits at the same time is not disturbed, because
the commits of epochs depend on no file. Older versions of the table can be read until the old files are deleted.
"""

import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import unquote
from uuid import uuid4

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options, open_filesystem
from holdfast.streaming.sinks.delta_table import (
    WITHOUT_CLEANUP,
    find_table,
    partition_values,
    translate_errors,
)
from holdfast.streaming.sinks.lineage import (
    DIGEST,
    MERGED,
    ROWS,
    STREAM,
    EpochRange,
    epoch_of,
    merged_epochs,
    merged_folder,
)
from holdfast.streaming.sinks.table_files import (
    LiveFile,
    epochs_twice,
    file_schema,
    live_files,
    read_digest,
    rows_by_epoch,
    write_merged,
)

COMMIT_TRIES = 20
CHECKPOINT_SPACING = 10_000
"""Of the older checkpoints of a log one in so many commits is kept: enough to read older versions from."""
CANNOT_MERGE = frozenset({"deletionVectors", "columnMapping"})
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_OWN = re.compile(r"data/\d{12}-")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFiles:
    """What a merge has written."""

    files_before: int
    files: int
    rows: int
    digest: str


def sum_digests(digests: Sequence[str]) -> str:
    """The digest of the rows of several epochs together; empty if one of them is unknown."""
    if not all(digests):
        return ""
    return f"{sum(int(digest, 16) for digest in digests) % 2**64:016x}"


@dataclass(frozen=True, slots=True)
class TableCompaction:
    """One table, and how to reach it."""

    path: str
    connect: Callable[[], S3Connection]

    def find(self) -> DeltaTable | None:
        """Open the table; `None` if there is none, and an error if its files are not all of its rows."""
        with translate_errors(self.path):
            table = find_table(self.path, delta_options(self.path, self.connect))
            features = set() if table is None else set(table.protocol().reader_features or ())
        if features & CANNOT_MERGE:
            raise PermanentError(
                f"the table {self.path} cannot be compacted: it uses {', '.join(sorted(features & CANNOT_MERGE))}",
                hint="compact it with the tool that turned this on",
            )
        return table

    def merge(
        self, stream: str, epochs: EpochRange, entries: Mapping[int, LedgerEntry], *, now: float
    ) -> MergedFiles:
        """Replace the files of a range of epochs; those that were not merged before must agree with their entries."""
        with translate_errors(self.path):
            table = self._require()
            sources = [
                file
                for file in live_files(table)
                if file.epochs is not None and file.epochs.overlaps(epochs)
            ]
            if not all(
                file.epochs.first in epochs and file.epochs.last in epochs
                for file in sources
                if file.epochs
            ):
                raise TransientError(
                    f"the files of the table {self.path} were not merged: another run has merged some of epochs "
                    f"{epochs.first} to {epochs.last} with epochs beside them",
                    hint="compact it again",
                )
            _require_once(self.path, sources, entries)
            files, root = open_filesystem(self.path, self.connect)
            folder = merged_folder(epochs, uuid4().hex[:8])
            digest, schema = _digest(files, root, sources, entries), file_schema(table)
            try:
                merged = [
                    write_merged(
                        files, root, part, _target(folder, part[0]), schema=schema, digest=digest
                    )
                    for part in _partitions(sources)
                ]
            except BaseException:
                _delete(files, f"{root}/{folder}")
                raise
            result = MergedFiles(
                files_before=len(sources),
                files=len(merged),
                rows=sum(file.rows for file in merged),
                digest=digest,
            )
            if not self._replace(table, sources, merged, _commit(stream, epochs, result, now)):
                _delete(files, f"{root}/{folder}")
                raise TransientError(
                    f"the files of the table {self.path} were not merged: the table has changed meanwhile",
                    hint="compact it again",
                )
        return result

    def _replace(
        self,
        table: DeltaTable,
        sources: Sequence[LiveFile],
        merged: Sequence[LiveFile],
        commit: "_Commit",
    ) -> bool:
        """Commit the new files in place of the old ones; `False` if an old one is no longer in the table."""
        old, new = {file.path for file in sources}, {file.path for file in merged}
        for _ in range(COMMIT_TRIES):
            table.update_incremental()
            live = {file.path for file in live_files(table)}
            if new <= live:  # the store has committed, and then answered with an error
                return True
            if not old <= live:
                return False
            try:
                commit.write(table, sources, merged)
            except CommitFailedError as error:  # an epoch was committed at the same time
                log.info("merge of %s not committed, trying again: %s", self.path, error)
            else:
                return True
        raise TransientError(
            f"the files of the table {self.path} were not merged: other writers were faster {COMMIT_TRIES} times",
            hint="compact it again",
        )

    def find_expired(self, table: DeltaTable, *, hours: int) -> list[str]:
        """The files that are there and were merged longer ago than that."""
        with translate_errors(self.path):
            removed = table.vacuum(hours, dry_run=True, enforce_retention_duration=False)
            files, root = open_filesystem(self.path, self.connect)
            live = {file.path for file in live_files(table)}
            names = {
                text.removeprefix(f"{root}/") for path in removed for text in (path, unquote(path))
            }
            paths = sorted(name for name in names - live if _OWN.match(name))
            entries = files.get_file_info([f"{root}/{path}" for path in paths]) if paths else []
            return [
                path
                for path, entry in zip(paths, entries, strict=True)
                if entry.type is fs.FileType.File
            ]

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files of the table, and local folders that are then empty."""
        with translate_errors(self.path):
            files, root = open_filesystem(self.path, self.connect)
            if isinstance(files, fs.LocalFileSystem):
                for path in paths:
                    files.delete_file(f"{root}/{path}")
                for folder in sorted({str(PurePosixPath(path).parent) for path in paths}):
                    _delete_empty(files, root, folder)
            else:
                self._delete_objects(root, paths)

    def _delete_objects(self, root: str, paths: Sequence[str]) -> None:
        """Delete files in S3; Arrow would leave an empty object for the folder of each."""
        from holdfast.resources.object_store.s3 import S3ObjectStore  # boto3 is slow to import

        bucket, _, folder = root.partition("/")
        store = S3ObjectStore(lambda: replace(self.connect(), bucket=bucket, prefix=""))
        store.delete([f"{folder}/{path}" for path in paths])

    def commits_since_checkpoint(self, table: DeltaTable) -> int:
        """How many commits a reader of the table has to read."""
        with translate_errors(self.path):
            files, root = open_filesystem(self.path, self.connect)
            newest = max((version for version, _ in _checkpoints(files, root)), default=-1)
        return table.version() - newest

    def count_needless_checkpoints(self) -> int:
        """How many older checkpoints of the log are not needed to read any version."""
        with translate_errors(self.path):
            files, root = open_filesystem(self.path, self.connect)
            return len(_needless_checkpoints(sorted(_checkpoints(files, root))))

    def checkpoint(self) -> int:
        """Write a checkpoint of the log; returns how many older ones were deleted."""
        with translate_errors(self.path):
            self._require().create_checkpoint()
            files, root = open_filesystem(self.path, self.connect)
            needless = _needless_checkpoints(sorted(_checkpoints(files, root)))
            for path in needless:
                files.delete_file(path)
        return len(needless)

    def log_bytes(self) -> int:
        """The size of the table's log."""
        with translate_errors(self.path):
            files, root = open_filesystem(self.path, self.connect)
            chosen = fs.FileSelector(f"{root}/_delta_log", recursive=True, allow_not_found=True)
            return sum(entry.size or 0 for entry in files.get_file_info(chosen))

    def _require(self) -> DeltaTable:
        table = self.find()
        if table is None:
            raise PermanentError(
                f"there is no table {self.path}",
                hint="put the table back if it was moved, or correct its path",
            )
        return table


def _require_once(
    path: str, sources: Sequence[LiveFile], entries: Mapping[int, LedgerEntry]
) -> None:
    """Raise if an epoch is in the files twice, or with another number of rows than the ledger has."""
    twice = epochs_twice(sources)
    differing = [
        epoch
        for epoch, rows in rows_by_epoch(sources).items()
        if epoch in entries and entries[epoch].rows != rows
    ]
    if twice or differing:
        raise PermanentError(
            f"the files of the table {path} were not merged: epoch {min(twice + differing)} is in it twice, or with "
            "other rows than the ledger has",
            hint="run `holdfast doctor` for the stream",
        )


def _digest(
    files: fs.FileSystem,
    root: str,
    sources: Sequence[LiveFile],
    entries: Mapping[int, LedgerEntry],
) -> str:
    """The digest of all rows: from the ledger, and for ranges that were merged before from their files."""
    fresh = {epoch for file in sources if (epoch := epoch_of(file.path)) is not None}
    digests = [entries[epoch].digest if epoch in entries else "" for epoch in sorted(fresh)]
    merged = {epochs: file.path for file in sources if (epochs := merged_epochs(file.path))}
    before = [read_digest(files, f"{root}/{path}") for path in merged.values()]
    return sum_digests([*digests, *before])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    properties: CommitProperties
    millis: int

    def write(
        self, table: DeltaTable, sources: Sequence[LiveFile], merged: Sequence[LiveFile]
    ) -> None:
        added = [
            AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values=partition_values(file.path),
                modification_time=self.millis,
                data_change=False,
                stats=json.dumps({"numRecords": file.rows}),
            )
            for file in merged
        ]
        removed = [
            RemoveAction(
                path=file.path,
                data_change=False,
                deletion_timestamp=self.millis,
                size=file.size_bytes,
                partition_values=partition_values(file.path),
            )
            for file in sources
        ]
        table.create_write_transaction(
            [*added, *removed],
            "append",
            table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=self.properties,
            post_commithook_properties=WITHOUT_CLEANUP,
        )


def _commit(stream: str, epochs: EpochRange, merged: MergedFiles, now: float) -> _Commit:
    return _Commit(
        millis=int(now * 1000),
        properties=CommitProperties(
            max_commit_retries=0,  # delta-rs would not look whether the old files are still there
            custom_metadata={
                STREAM: stream,
                MERGED: f"{epochs.first}-{epochs.last}",
                ROWS: str(merged.rows),
                DIGEST: merged.digest,
            },
        ),
    )


def _partitions(sources: Sequence[LiveFile]) -> list[list[LiveFile]]:
    """The files of each partition, in the order of their epochs."""
    parts: dict[str, list[LiveFile]] = defaultdict(list)
    for file in sorted(sources, key=lambda file: (file.epochs, file.path)):
        parts[file.partition].append(file)
    return [parts[partition] for partition in sorted(parts)]


def _target(folder: str, source: LiveFile) -> str:
    return "/".join(filter(None, (folder, source.partition, "part-0.parquet")))


def _checkpoints(files: fs.FileSystem, root: str) -> Iterator[tuple[int, str]]:
    chosen = fs.FileSelector(f"{root}/_delta_log", recursive=False, allow_not_found=True)
    for entry in files.get_file_info(chosen):
        match = _CHECKPOINT.fullmatch(entry.base_name)
        if match is not None:
            yield int(match[1]), entry.path


def _needless_checkpoints(checkpoints: Sequence[tuple[int, str]]) -> list[str]:
    """All but the two newest and, of the older ones, one in so many commits."""
    needless: list[str] = []
    kept = -CHECKPOINT_SPACING
    for version, path in checkpoints[:-2]:
        if version - kept < CHECKPOINT_SPACING:
            needless.append(path)
        else:
            kept = version
    return needless


def _delete(files: fs.FileSystem, folder: str) -> None:
    """Delete a folder that was staged and not committed; what is left is found as orphaned later."""
    try:
        files.delete_dir(folder)
    except OSError as error:
        log.warning("staged files not deleted, left to retention: %s: %s", folder, error)


def _delete_empty(files: fs.FileSystem, root: str, folder: str) -> None:
    """Delete a folder below `data/` and those above it, as long as they are empty."""
    while folder != "data":
        chosen = fs.FileSelector(f"{root}/{folder}", allow_not_found=True)
        if files.get_file_info(chosen):
            return
        files.delete_dir(f"{root}/{folder}")
        folder = str(PurePosixPath(folder).parent)
