"""The hourly retention: deletes what no recovery, restore or report needs any more."""

import errno
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.configs.declarations.sources import FilesSource
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.retention import first_epoch_to_keep
from holdfast.ft_policies.snapshots import RetentionVerdict
from holdfast.observation.growth import (
    epoch_facts,
    find_margin,
    last_position,
    measure_table,
    open_files,
)
from holdfast.observation.orphans import ORPHAN_HOURS, find_orphans
from holdfast.observation.tables import has_unentered, open_table_at, own_tables, table_errors
from holdfast.resources.control_store.records import ReplicaRow, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.process import HOST, is_over
from holdfast.resources.project import Project
from holdfast.resources.vault.catalogue import list_restorable
from holdfast.resources.vault.prune import SUPERSEDED_SECONDS
from holdfast.streaming.sinks.delta.table import adopt_window
from holdfast.streaming.sources.assigned import find_taken
from holdfast.streaming.sources.folder import ListedFile

log = logging.getLogger(__name__)

NAMES_KEPT_LONGER = 2
"""How many times longer than the source keeps its files their names are kept."""
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
KEPT_FOLDERS = 100
"""So many replicas of a stream keep their logs: one that cannot start is tried again 150 times a day."""
REPLICA_LOGS = ("driver.out", "replica.log", "spark.log")


def prune_epochs(project: Project, stream: str, verdicts: Sequence[RetentionVerdict]) -> int:
    """Delete the epochs and ledger entries that are older than the restore window and every kept snapshot.

    A snapshot that cannot be restored counts for nothing: the epochs before the next one are still needed.
    """
    kept = {verdict.snapshot.id for verdict in verdicts if verdict.keep}
    restorable = list_restorable(project.store, stream, project.vault(stream))
    epochs = [record.epoch for record in restorable if record.id in kept]
    facts = epoch_facts(project, stream, epochs)
    return project.store.retention.prune_epochs(stream, before=first_epoch_to_keep(facts))


def prune_file_names(project: Project, stream: str) -> int:
    """Forget the names of input files that their source has deleted long ago; none if it cannot be listed now.

    A file may stay longer than declared: the name of one that is there is kept. It also stays behind what waits to
    be read, so an older file that comes later may be one whose name was forgotten.
    """
    source = project.config.stream(stream).source
    if not isinstance(source, FilesSource):
        return 0
    try:
        files = open_files(project, source).files(last_position(project, stream))
    except TransientError as error:
        log.warning("no file names of %s are forgotten: %s", stream, error)
        return 0
    return project.store.retention.prune_file_names(
        stream,
        changed_before_ns=_first_needed_ns(project, stream, source, files),
        listed={file.name for file in files},
    )


def _first_needed_ns(
    project: Project, stream: str, source: FilesSource, files: Sequence[ListedFile]
) -> int:
    """Names of files that were changed before are not needed: none that waits is as old."""
    if source.kept_for is None:
        kept_seconds = project.config.deployment.retention.records
    else:
        kept_seconds = NAMES_KEPT_LONGER * source.kept_for
    before_ns = int((project.store.now() - kept_seconds) * 1e9)
    old = [file for file in files if file.changed_ns < before_ns]
    taken = find_taken(project.store, stream, old)
    waiting = (file.changed_ns for file in old if file.name not in taken)
    return min(waiting, default=before_ns)


def prune_orphans(project: Project, stream: str, *, dry_run: bool) -> list[str]:
    """Drop the files that were staged for the own tables of the stream and never committed."""
    since = project.store.now() - ORPHAN_HOURS * 3600
    young_from = project.store.retention.first_epoch_since(stream, since)
    return [
        file
        for path in own_tables(project, stream)
        for file in drop_orphans(
            project,
            path,
            young_from=young_from,
            keep_log=path != project.config.dead_letters_path(stream)
            and has_unentered(project, stream),
            dry_run=dry_run,
        )
    ]


def drop_orphans(
    project: Project,
    path: str,
    *,
    young_from: int | None = None,
    keep_log: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Delete the orphans of a table; returns their files.

    Commits before `retention.table_versions` are deleted first, unless `keep_log`: they protect no folder any more.
    """
    if not (dry_run or keep_log):
        _drop_old_commits(project, path)
    orphans = find_orphans(project, path, young_from=young_from)
    if orphans and not dry_run:
        connect = connector(project.config.deployment.object_store, project.config.home)
        with table_errors(path):
            files, _ = open_filesystem(path, connect)
            for folder in orphans:
                files.delete_dir(folder)
    return [file for paths in orphans.values() for file in paths]


def _drop_old_commits(project: Project, path: str) -> None:
    table = open_table_at(project, path)
    if table is None:
        return
    with table_errors(path):
        if adopt_window(table, project.config.deployment.retention.table_versions):
            table.cleanup_metadata()


def prune_records(project: Project, *, streams: Sequence[str]) -> dict[str, int]:
    """Delete the old records of all streams; returns how many of each kind."""
    store, deployment = project.store, project.config.deployment
    now = store.now()
    before, measured = now - deployment.retention.records, now - deployment.samples.keep
    return {
        "samples": store.samples.prune(measured),
        "superseded_entries": store.retention.prune_superseded(before=now - SUPERSEDED_SECONDS),
        "dropped_snapshots": sum(  # the cost reports count them as long as the samples
            store.retention.prune_dropped_snapshots(name, before=measured) for name in streams
        ),
        **store.retention.prune_records(before=before),
        "names_of_gaps": store.retention.fold_gaps(before=before),
        "replicas": _prune_replicas(project, before=before),
        "replica_folders": sum(_prune_folders(project, name) for name in streams),
    }


def _prune_replicas(project: Project, *, before: float) -> int:
    """Delete the rows of replicas that ended long ago, and the folders that those on this host had."""
    rows = project.store.retention.ended_replicas(before=before)
    gone = [row for row in rows if row.host != HOST or is_over(row)]
    for row in gone:
        _remove_folder(row)
    project.store.retention.forget_replicas([row.id for row in gone])
    return len(gone)


def _prune_folders(project: Project, stream: str) -> int:
    """Delete the folders of all but the newest replicas that ended on this host; their rows stay."""
    rows = [row for row in project.store.replicas.of(stream, live=False) if is_over(row)]
    return sum(map(_remove_folder, rows[KEPT_FOLDERS:]))


def _remove_folder(row: ReplicaRow) -> bool:
    """Delete the folder that a replica had on this host; `False` if there is none."""
    folder = Path(row.folder)
    if row.host != HOST or folder.name != row.id or not folder.is_dir():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def sample_growth(project: Project, stream: str) -> None:
    """Sample the size of the output table, the oldest epoch that may be computed again, and how long its input lasts."""
    table, margin = measure_table(project, stream), find_margin(project, stream)
    values = {
        SampleName.TABLE_FILES: None if table is None else table.files,
        SampleName.TABLE_LOG_BYTES: None if table is None else table.log_bytes,
        SampleName.REPLAY_FLOOR: margin.first_epoch,
        SampleName.REPLAY_MARGIN_SECONDS: margin.margin_seconds,
    }
    project.store.samples.write(
        [
            Sample(stream=stream, replica="", name=name, value=float(value))
            for name, value in values.items()
            if value is not None
        ]
    )


def rotate_logs(project: Project, *, streams: Sequence[str]) -> list[str]:
    """Cut the logs of services and live replicas on this host that have grown beyond `retention.log_size`."""
    limit = project.config.deployment.retention.log_size
    rows = [row for name in streams for row in project.store.replicas.of(name)]
    return [str(log) for log in (*_service_logs(project), *_replica_logs(rows)) if _cut(log, limit)]


def _service_logs(project: Project) -> Iterator[Path]:
    return (project.config.home / "logs").glob("*.log")


def _replica_logs(rows: Sequence[ReplicaRow]) -> Iterator[Path]:
    return (Path(row.folder) / name for row in rows if row.host == HOST for name in REPLICA_LOGS)


def _cut(file: Path, limit: int) -> bool:
    """Move the content of a log to `<name>.1` if it is too long; its writer goes on with the same, empty file.

    All writers append, so what they write next is at the new end. A line that is written while the content is copied
    may be lost. On a full disk all of it is: the log may be what fills the disk.
    """
    try:
        if file.stat().st_size <= limit:
            return False
        _copy_unless_full(file, file.with_name(f"{file.name}.1"))
        os.truncate(file, 0)
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("the log %s is not cut: %s", file, error)
        return False
    return True


def _copy_unless_full(file: Path, copy: Path) -> None:
    try:
        shutil.copyfile(file, copy)
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        log.warning("the log %s is cut without a copy: %s", file, error)
        copy.unlink(missing_ok=True)
