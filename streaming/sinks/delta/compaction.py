"""Merging the files of a table: the rows of many epochs in few files, by one commit that changes no row.

The new files are written and compared with the old ones before the commit. It succeeds only on the version of the
table that was read last, with all old files in it; a stream that commits at the same time is not disturbed, because
the commits of epochs depend on no file. A new file knows how many rows it has of each epoch, so that a restore can cut
it. Older versions of the table can be read until the old files are deleted.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.table_epochs import EpochIndex, EpochRange, join_indexes, sum_digests
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options, open_filesystem
from holdfast.streaming.sinks.delta.files import (
    LiveFile,
    MergedFooter,
    TableFolder,
    epochs_twice,
    file_schema,
    live_files,
    read_footer,
    replace_files,
    rows_by_epoch,
    write_file,
)
from holdfast.streaming.sinks.delta.lineage import (
    DIGEST,
    MERGED,
    ROWS,
    STREAM,
    epoch_of,
    merged_epochs,
    merged_folder,
)
from holdfast.streaming.sinks.delta.table import (
    find_table,
    require_plain_files,
    translate_errors,
)

COMMIT_TRIES = 20
CHECKPOINT_SPACING = 1_000
"""Of the older checkpoints of a log one in so many commits is kept: enough to read older versions from."""
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


@dataclass(frozen=True, slots=True)
class TableCompaction:
    """One table, and how to reach it."""

    path: str
    connect: Callable[[], S3Connection]

    def find(self) -> DeltaTable | None:
        """Open the table; `None` if there is none, and an error if its files are not all of its rows."""
        with translate_errors(self.path):
            table = find_table(self.path, delta_options(self.path, self.connect))
            if table is not None:
                require_plain_files(table, self.path, done="compacted")
        return table

    def merge(
        self,
        stream: str,
        epochs: EpochRange,
        entries: Mapping[int, LedgerEntry],
        *,
        now: float,
        first_kept: int = 0,
    ) -> MergedFiles:
        """Replace the files of a range of epochs; those that were not merged before must agree with their entries.

        Epochs before the first that is kept cannot be restored any more, so the new files need not tell them apart.
        """
        with translate_errors(self.path):
            table, folder = self._require(), TableFolder.open(self.path, self.connect)
            sources = _find_sources(self.path, table, epochs)
            _require_once(self.path, sources, entries)
            footers = {
                file.path: read_footer(folder, file.path)
                for file in sources
                if merged_epochs(file.path) is not None
            }
            staged = _Merge(folder, merged_folder(epochs, uuid4().hex[:8]), footers, first_kept)
            digest = _digest(sources, footers, entries)
            merged = staged.write(sources, file_schema(table), digest)
            result = MergedFiles(
                files_before=len(sources),
                files=len(merged),
                rows=sum(file.rows for file in merged),
                digest=digest,
            )
            if not self._replace(table, sources, merged, _commit(stream, epochs, result, now)):
                folder.delete(staged.name)
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
        """The files that are there and were removed from the table longer ago than that."""
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


def _find_sources(path: str, table: DeltaTable, epochs: EpochRange) -> list[LiveFile]:
    """The files of a range; raises if one of them has rows of epochs beside it."""
    sources = [
        file
        for file in live_files(table)
        if file.epochs is not None and file.epochs.overlaps(epochs)
    ]
    if all(
        file.epochs.first in epochs and file.epochs.last in epochs
        for file in sources
        if file.epochs
    ):
        return sources
    raise TransientError(
        f"the files of the table {path} were not merged: another run has merged some of epochs "
        f"{epochs.first} to {epochs.last} with epochs beside them",
        hint="compact it again",
    )


def _digest(
    sources: Sequence[LiveFile],
    footers: Mapping[str, MergedFooter],
    entries: Mapping[int, LedgerEntry],
) -> str:
    """The digest of all rows: from the ledger, and for ranges that were merged before from their files."""
    fresh = {epoch for file in sources if (epoch := epoch_of(file.path)) is not None}
    digests = [entries[epoch].digest if epoch in entries else "" for epoch in sorted(fresh)]
    before = {merged_epochs(path): footer.digest for path, footer in footers.items()}
    return sum_digests([*digests, *before.values()])


@dataclass(frozen=True, slots=True)
class _Merge:
    """The new files of a range, before their commit."""

    folder: TableFolder
    name: str
    footers: Mapping[str, MergedFooter]
    first_kept: int

    def write(self, sources: Sequence[LiveFile], schema: pa.Schema, digest: str) -> list[LiveFile]:
        """Write a file for each partition."""
        try:
            return [
                write_file(
                    self.folder,
                    part,
                    self.folder,
                    _target(self.name, part[0]),
                    schema=schema,
                    digest=digest,
                    index=join_indexes(map(self._index, part)).fold(self.first_kept),
                )
                for part in _partitions(sources)
            ]
        except BaseException:
            self.folder.delete(self.name)
            raise

    def _index(self, file: LiveFile) -> EpochIndex:
        epoch, epochs = epoch_of(file.path), merged_epochs(file.path)
        if epoch is not None:
            return EpochIndex(((epoch, file.rows),))
        assert epochs is not None, "the sources are files of epochs"  # noqa: S101
        index = self.footers[file.path].index
        is_right = index is not None and index.rows == file.rows
        return index if index and is_right else EpochIndex((), epochs.last, file.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    properties: CommitProperties
    at: float

    def write(
        self, table: DeltaTable, sources: Sequence[LiveFile], merged: Sequence[LiveFile]
    ) -> None:
        replace_files(
            table,
            removed=sources,
            added=merged,
            commit=self.properties,
            at=self.at,
            data_change=False,
        )


def _commit(stream: str, epochs: EpochRange, merged: MergedFiles, now: float) -> _Commit:
    return _Commit(
        at=now,
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


def _delete_empty(files: fs.FileSystem, root: str, folder: str) -> None:
    """Delete a folder below `data/` and those above it, as long as they are empty."""
    while folder != "data":
        chosen = fs.FileSelector(f"{root}/{folder}", allow_not_found=True)
        if files.get_file_info(chosen):
            return
        files.delete_dir(f"{root}/{folder}")
        folder = str(PurePosixPath(folder).parent)
