"""Files that are not needed any more: staged files, folders of replicas and drills."""

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.doctor.facts import Leftover
from holdfast.ft_policies.timings import DRILL_WITHIN_SECONDS
from holdfast.observation.doctor.records import examine_table
from holdfast.observation.orphans import STAGED_FOLDER, list_staged_folders
from holdfast.observation.tables import table_errors
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.process import is_over
from holdfast.resources.project import Project

SWEEP_SECONDS = 60.0  # a start does not wait until old folders are removed
_RUN = r"(cli-[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"


def examine_leftovers(project: Project, declared: StreamDeclaration) -> tuple[Leftover, ...]:
    """Find the leftovers of a stream."""
    stream = declared.name
    rows = {row.id: row for row in project.store.replicas.of(stream, live=False)}
    return (
        *_find_staged(project, declared, rows),
        *_replicas(project, declared, rows),
        *_drills(project, stream),
    )


def _find_staged(
    project: Project, declared: StreamDeclaration, rows: dict[str, ReplicaRow]
) -> Iterator[Leftover]:
    """Folders under `data/` that no commit names, of replicas that have ended.

    If the same replica has committed the epoch from another folder, an older version of the table may
    name this one: it is left over only if the table still names the other folder.
    """
    if not isinstance(declared.sink, DeltaSink):
        return
    folders = _data_folders(project, project.config.table_path(declared))
    written = examine_table(project, declared) if folders else None
    if written is None:
        return
    committed = {folder[:-9] for folder in written.folders}
    for folder, path in folders.items():
        match = STAGED_FOLDER.fullmatch(folder)
        row = None if match is None else rows.get(match[2])
        if match is None or row is None or folder in written.folders or not is_over(row):
            continue
        epoch = int(match[1])
        if (epoch, row.id) in written.undone:
            continue  # an older version of the table names it, and a restore may return to that version
        commit = written.commits.get(epoch)
        is_of_another = epoch >= written.first and (commit is None or commit.replica != row.id)
        if is_of_another or folder[:-9] in committed:
            yield Leftover(path=path, of=f"epoch {epoch} of {row.id}", staging=True)


def _data_folders(project: Project, table: str) -> dict[str, str]:
    """The folders under `data/` by name, each with its path below the table's."""
    connect = connector(project.config.deployment.object_store, project.config.home)
    files, root = open_filesystem(table, connect)
    with table_errors(table):
        return {name: f"{table}/data/{name}" for name in list_staged_folders(files, root)}


def _replicas(
    project: Project, declared: StreamDeclaration, rows: dict[str, ReplicaRow]
) -> Iterator[Leftover]:
    """Files that the last start should have removed, and folders without a replica."""
    swept_at = project.store.now() - SWEEP_SECONDS
    starts = (row.registered_at for row in rows.values() if row.registered_at <= swept_at)
    started_at = max(starts, default=0.0)
    home, name = project.config.home / "replicas", rf"{re.escape(declared.name)}-[0-9a-f]{{8}}"
    roots = dict.fromkeys((home, project.config.replicas_folder(declared)))  # often the same
    for folder in (folder for root in roots for folder in _list_folders(root, name)):
        row = rows.get(folder.name)
        if row is None and folder.parent == home:  # elsewhere it may be another project's
            yield Leftover(path=str(folder), of="a replica that is not in the control store")
        elif (
            row is not None
            and is_over(row)
            and row.ended_at is not None
            and row.ended_at < started_at
        ):
            for entry in _list_folders(folder, ".*"):
                yield Leftover(path=str(entry), of=f"{row.id}, which is {row.state}")


def _drills(project: Project, stream: str) -> Iterator[Leftover]:
    for folder in _list_folders(project.config.home / "drills", rf"{re.escape(stream)}-{_RUN}"):
        if _age_seconds(folder, project.clock.now()) > DRILL_WITHIN_SECONDS:
            yield Leftover(path=str(folder), of="a drill that was interrupted")


def _list_folders(root: Path, pattern: str) -> list[Path]:
    """The folders whose name matches; none if the root does not exist or was removed meanwhile."""
    try:
        return [p for p in sorted(root.iterdir()) if p.is_dir() and re.fullmatch(pattern, p.name)]
    except FileNotFoundError:
        return []


def _age_seconds(folder: Path, now: float) -> float:
    try:
        return now - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
