"""Moving objects and folders so that a move that was cut short can be repeated."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyarrow import fs

from resources.object_store.connection import S3Connection
from resources.object_store.resolve import filesystem
from resources.object_store.s3 import MissingObjectError, ObjectStore


def has_object(objects: ObjectStore, key: str) -> bool:
    """Whether an object is there."""
    return any(one.key == key for one in objects.list(key))


def copy_object(objects: ObjectStore, key: str, to: str) -> bool:
    """Copy an object through a file, since it may be large; false if there is none."""
    with tempfile.TemporaryFile() as body:
        try:
            body.writelines(objects.read(key))
        except MissingObjectError:
            return False
        body.seek(0)
        objects.put(to, body)
    return True


def move_folder(origin: str, target: str, connect: Callable[[], S3Connection]) -> bool:
    """Move a folder of a disk or of S3; what is there already stays, and what is gone was moved."""
    files, source = filesystem(origin, connect)
    _, goal = filesystem(target, connect)
    if not isinstance(files, fs.LocalFileSystem):
        return _move_one_by_one(files, source, goal)
    if _is_there(files, goal) or not _is_there(files, source):
        return False
    Path(goal).parent.mkdir(parents=True, exist_ok=True)
    Path(source).rename(goal)
    return True


def link_folder(origin: Path, target: Path) -> None:
    """Give the files of a folder a second name each, so that they outlive it; what goes meanwhile may go."""
    for folder, _, names in os.walk(origin):
        goal = target / Path(folder).relative_to(origin)
        goal.mkdir(parents=True, exist_ok=True)
        for name in names:
            with suppress(FileExistsError, FileNotFoundError):
                os.link(Path(folder, name), goal / name)


def delete_folder(folder: str, connect: Callable[[], S3Connection]) -> None:
    """Delete a folder with everything in it, if it is there."""
    files, path = filesystem(folder, connect)
    if _is_there(files, path):
        files.delete_dir(path)


def _move_one_by_one(files: fs.FileSystem, source: str, goal: str) -> bool:
    chosen = fs.FileSelector(source, recursive=True, allow_not_found=True)
    found = [info.path for info in files.get_file_info(chosen) if info.is_file]
    for path in found:
        target = goal + path.removeprefix(source)
        if not _is_there(files, target):
            files.move(path, target)
    return bool(found)


def _is_there(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type is not fs.FileType.NotFound)
