"""Old commits of a table's log, packed beside it: each look at the log lists its whole folder.

On a local disk delta-rs lists the folder of the log with each commit, so a commit takes the longer the more commits the
restore window holds (0.2 s of CPU at an epoch a second and a day). Only the newest ones stay in the log; the others are
packed with their checkpoints, and put back for a rollback. In S3 a listing begins where the reader was: nothing is packed.
"""

import os
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyarrow import fs

from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import open_filesystem

FOLDER = "_log_archive"
KEPT_COMMITS = 5_000
"""At least so many of the newest commits stay in the log, for audits."""
PACKED_AT_ONCE = 1_000
_NUMBERED = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
_WITH_CHECKPOINT = ".checkpoint.tar.gz"


def pack_log(
    path: str,
    connect: Callable[[], S3Connection],
    *,
    before: float,
    kept_commits: int = KEPT_COMMITS,
    at_once: int = PACKED_AT_ONCE,
) -> int:
    """Pack all commits before a checkpoint, and delete packs that only versions from before a time need.

    Returns how many files it packed.
    """
    root = _local_root(path, connect)
    if root is None or not (root / "_delta_log" / "_last_checkpoint").exists():
        return 0
    _delete_packs(root, before)
    files = list(_numbered(root))
    newest = max(version for version, _ in files) - kept_commits
    checkpoints = (version for version, file in files if file.suffix == ".parquet")
    first = max((version for version in checkpoints if version <= newest), default=-1)
    old = sorted((version, file) for version, file in files if version < first)
    if len(old) < at_once:
        return 0
    suffix = _WITH_CHECKPOINT if any(f.suffix == ".parquet" for _, f in old) else ".tar.gz"
    name = f"{old[0][0]:020d}-{old[-1][0]:020d}{suffix}"
    _pack(root / FOLDER / name, [file for _, file in old])
    return len(old)


def unpack_log(path: str, connect: Callable[[], S3Connection]) -> None:
    """Put all packed commits back, so that older versions of the table can be read."""
    root = _local_root(path, connect)
    for pack in () if root is None else _packs(root):
        with tarfile.open(pack) as opened:
            opened.extractall(pack.parent.parent / "_delta_log", filter="data")
        pack.unlink()


def read_packed_commits(path: str, connect: Callable[[], S3Connection]) -> Iterator[bytes]:
    """The content of the packed commits."""
    root = _local_root(path, connect)
    for pack in () if root is None else _packs(root):
        with tarfile.open(pack) as opened:
            for member in opened:
                body = opened.extractfile(member) if member.name.endswith(".json") else None
                if body is not None:
                    yield body.read()


def _pack(target: Path, files: list[Path]) -> None:
    """Write the pack, then delete the files; after a crash in between, they are packed once more."""
    target.parent.mkdir(exist_ok=True)
    draft = target.with_suffix(".tmp")
    with tarfile.open(draft, "w:gz", compresslevel=6) as opened:
        for file in files:
            opened.add(file, file.name)
    newest = max(file.stat().st_mtime for file in files)
    os.utime(draft, (newest, newest))
    draft.rename(target)
    for file in files:
        file.unlink(missing_ok=True)


def _delete_packs(root: Path, before: float) -> None:
    """Delete old packs, except from the last one with a checkpoint on: later versions are read from there."""
    old = [pack for pack in _packs(root) if pack.stat().st_mtime < before]
    places = [place for place, pack in enumerate(old) if pack.name.endswith(_WITH_CHECKPOINT)]
    for pack in old[: places[-1] if places else 0]:
        pack.unlink()


def _packs(root: Path) -> list[Path]:
    return sorted((root / FOLDER).glob("*.tar.gz"))


def _numbered(root: Path) -> Iterator[tuple[int, Path]]:
    for file in (root / "_delta_log").iterdir():
        match = _NUMBERED.fullmatch(file.name)
        if match is not None:
            yield int(match[1]), file


def _local_root(path: str, connect: Callable[[], S3Connection]) -> Path | None:
    files, root = open_filesystem(path, connect)
    return Path(root) if isinstance(files, fs.LocalFileSystem) else None
