"""Looking for what nobody needs any more: staged files, folders of replicas and drills."""

import re
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

from holdfast.configs.sinks import DeltaSink
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.doctor.facts import Leftover
from holdfast.ft_policies.timings import DRILL_WITHIN_SECONDS
from holdfast.observation.doctor.records import examine_table
from holdfast.observation.tables import reachable
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.object_store.resolve import connector, filesystem
from holdfast.resources.process import is_over
from holdfast.resources.project import Project

SWEEP_SECONDS = 60.0  # a start begins to sweep, and does not wait for the end of it
_STAGED = re.compile(r"(\d{12})-(.+)-[0-9a-f]{8}")
_RUN = r"(cli-[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"


def examine_leftovers(world: Project, declared: StreamDeclaration) -> tuple[Leftover, ...]:
    """All of them."""
    stream = declared.name
    rows = {row.id: row for row in world.store.replicas.of(stream, live=False)}
    return (
        *_staged(world, declared, rows),
        *_replicas(world, declared, rows),
        *_drills(world, stream),
    )


def _staged(
    world: Project, declared: StreamDeclaration, rows: dict[str, ReplicaRow]
) -> Iterator[Leftover]:
    """Folders under `data/` that no commit names, of replicas that have ended.

    One whose epoch the same replica has committed may be named by an older version of the table: it
    is left over only if the table still names the other one.
    """
    if not isinstance(declared.sink, DeltaSink):
        return
    folders = _data_folders(world, world.config.table_path(declared))
    written = examine_table(world, declared) if folders else None
    if written is None:
        return
    committed = {folder[:-9] for folder in written.folders}
    for folder, path in folders.items():
        match = _STAGED.fullmatch(folder)
        row = None if match is None else rows.get(match[2])
        if match is None or row is None or folder in written.folders or not is_over(row):
            continue
        epoch = int(match[1])
        if (epoch, row.id) in written.undone:
            continue  # an older version of the table names it, and a restore may go back to that
        commit = written.commits.get(epoch)
        anothers = epoch >= written.first and (commit is None or commit.replica != row.id)
        if anothers or folder[:-9] in committed:
            yield Leftover(path=path, of=f"epoch {epoch} of {row.id}", staging=True)


def _data_folders(world: Project, table: str) -> dict[str, str]:
    """The folders under `data/` by name, each with its path as the table's is written."""
    connect = connector(world.config.deployment.object_store, world.config.home)
    files, root = filesystem(table, connect)
    chosen = fs.FileSelector(f"{root}/data", recursive=False, allow_not_found=True)
    with reachable(table):
        found = files.get_file_info(chosen)
    return {
        info.base_name: f"{table}/data/{info.base_name}"
        for info in found
        if info.type is fs.FileType.Directory
    }


def _replicas(
    world: Project, declared: StreamDeclaration, rows: dict[str, ReplicaRow]
) -> Iterator[Leftover]:
    """What the last start should have swept away, and folders that no replica ever had."""
    swept_at = world.store.now() - SWEEP_SECONDS
    starts = (row.registered_at for row in rows.values() if row.registered_at <= swept_at)
    started_at = max(starts, default=0.0)
    home, name = world.config.home / "replicas", rf"{re.escape(declared.name)}-[0-9a-f]{{8}}"
    roots = dict.fromkeys((home, world.config.replicas_folder(declared)))  # often they are one
    for folder in (folder for root in roots for folder in _named(root, name)):
        row = rows.get(folder.name)
        if row is None and folder.parent == home:  # elsewhere it may be another project's
            yield Leftover(path=str(folder), of="a replica that the control store does not know")
        elif (
            row is not None
            and is_over(row)
            and row.ended_at is not None
            and row.ended_at < started_at
        ):
            for entry in _named(folder, ".*"):
                yield Leftover(path=str(entry), of=f"{row.id}, which is {row.state}")


def _drills(world: Project, stream: str) -> Iterator[Leftover]:
    for folder in _named(world.config.home / "drills", rf"{re.escape(stream)}-{_RUN}"):
        if _age_seconds(folder) > DRILL_WITHIN_SECONDS:
            yield Leftover(path=str(folder), of="a drill that was cut short")


def _named(root: Path, pattern: str) -> list[Path]:
    """The folders of this name; none if somebody has just removed the one that they are in."""
    try:
        return [p for p in sorted(root.iterdir()) if p.is_dir() and re.fullmatch(pattern, p.name)]
    except FileNotFoundError:
        return []


def _age_seconds(folder: Path) -> float:
    try:
        return SYSTEM_CLOCK.now() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
