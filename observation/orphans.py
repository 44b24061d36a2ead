"""Files that replicas staged for a table and never committed.

Sinks stage in folders of their own, `data/<epoch>-<replica>-<8 hex digits>/` below the table. Nothing else is
an orphan: other files below the table may be input, another table, or snapshots.
"""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import fs

from holdfast.ft_policies.errors import TransientError
from holdfast.observation.tables import open_table_at, table_errors
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.project import Project

ORPHAN_HOURS = 7 * 24
STAGED_FOLDER = re.compile(r"(\d{12})-(.+)-[0-9a-f]{8}")
_PARALLEL = 16


def find_orphans(
    project: Project, path: str, *, young_from: int | None = None
) -> dict[str, list[str]]:
    """The folders that were staged long ago and that no version of the table names, each with its files.

    After `ORPHAN_HOURS` no replica can still commit them. Folders of epochs from `young_from` on are known to be
    younger, so that they are not looked into.
    """
    table = open_table_at(project, path)
    if table is None:
        return {}
    connect = connector(project.config.deployment.object_store, project.config.home)
    with table_errors(path):
        files, root = open_filesystem(path, connect)
        limit = project.clock.now() - ORPHAN_HOURS * 3600
        old = _old_unused_folders(files, root, table, young_from, limit)
        named = _folders_in_log(files, root) if old else set()
    return {
        f"{root}/data/{folder}": [file.removeprefix(f"{root}/") for file in paths]
        for folder, paths in old.items()
        if folder not in named
    }


def list_staged_folders(files: fs.FileSystem, root: str) -> list[str]:
    """The names of the folders below `data/` that a sink has made."""
    chosen = fs.FileSelector(f"{root}/data", recursive=False, allow_not_found=True)
    return [
        info.base_name
        for info in files.get_file_info(chosen)
        if info.type is fs.FileType.Directory and STAGED_FOLDER.fullmatch(info.base_name)
    ]


def _old_unused_folders(
    files: fs.FileSystem, root: str, table: DeltaTable, young_from: int | None, limit: float
) -> dict[str, list[str]]:
    """The folders that the newest version does not use, each with its files; all are older than the limit."""
    current = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
    used = {folder for path in current for folder in _folders_in(path)}
    return {
        folder: paths
        for folder in list_staged_folders(files, root)
        if folder not in used
        and (young_from is None or int(folder[:12]) < young_from)
        and (
            paths := _files_if_old(
                files, f"{root}/data/{folder}", limit, is_old_epoch=young_from is not None
            )
        )
        is not None
    }


def _files_if_old(
    files: fs.FileSystem, folder: str, limit: float, *, is_old_epoch: bool
) -> list[str] | None:
    """The files of a folder; `None` if one of them, or the empty folder, is not old enough.

    An empty folder in S3 has no date: it is old if its epoch is known to be.
    """
    entries = files.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    stored = [entry for entry in entries if entry.type is fs.FileType.File]
    dated = stored or [files.get_file_info(folder)]
    is_old = all(
        is_old_epoch if entry.mtime is None else entry.mtime.timestamp() < limit for entry in dated
    )
    return [entry.path for entry in stored] if is_old else None


def _folders_in_log(files: fs.FileSystem, root: str) -> set[str]:
    """The folders that commits in the table's log add or remove.

    Each older version that can still be read consists of files of the newest version and of files that one of
    these commits removes.
    """
    chosen = fs.FileSelector(f"{root}/_delta_log", recursive=False)
    commits = [info.path for info in files.get_file_info(chosen) if info.path.endswith(".json")]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        bodies = pool.map(lambda commit: (_read(files, commit), commit), commits)
        return {folder for body, commit in bodies for folder in _folders_in_commit(body, commit)}


def _read(files: fs.FileSystem, commit: str) -> bytes:
    try:
        with files.open_input_stream(commit) as opened:
            return bytes(opened.read())
    except FileNotFoundError:
        return b""  # it has expired meanwhile


def _folders_in_commit(body: bytes, commit: str) -> Iterator[str]:
    for line in filter(None, body.splitlines()):
        try:
            action: Mapping[str, Any] = json.loads(line)
            paths = [action[kind]["path"] for kind in ("add", "remove", "cdc") if kind in action]
        except (ValueError, LookupError, TypeError) as error:
            raise TransientError(
                f"orphans not deleted: {commit} cannot be read: {error}",
                hint="check the log of the table",
            ) from error
        for path in paths:
            yield from _folders_in(str(path))


def _folders_in(path: str) -> Iterator[str]:
    """The staging folder of a file of the table, as it may be named: paths in the log may be encoded."""
    for text in {path, unquote(path)}:
        first, _, rest = text.partition("/")
        if first == "data" and "/" in rest:
            yield rest.split("/", 1)[0]
