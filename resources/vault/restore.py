"""Restores snapshots: reads packs in few large ranges and checks each file's digest.

Everything is written to a folder beside the target, which takes its name only when all is verified
and on the disk; so a target that exists is complete.

Files of an earlier restore on the same disk are linked and not fetched: a file of a checkpoint never changes
once it carries its final name (Spark writes beside it and renames), so two folders may share it. Files that
name the folder they lie in are rewritten: Spark writes absolute paths into the description of
`transformWithState` operators, and a restored query would look for its schema in the old folder.
"""

import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore
from holdfast.resources.vault.objects.manifest import Manifest, PackedFile, UnusableSnapshotError
from holdfast.resources.vault.objects.pack import disk_errors

_SCHEMA_PATH = re.compile(r'"[^"]*/(state/\d+/_stateSchema/)')
_NAMES_ITS_FOLDER = re.compile(r"state/\d+/_metadata/v2/\d+")
T = TypeVar("T")
_GAP_BYTES = 256 << 10
_FETCH_BYTES = 8 << 20
_PARALLEL = 8
_REFUSED_NAMES = {
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EILSEQ,
}


def sync_file_system(folder: Path) -> None:
    """Return once everything written to the file system of this folder is on its disk.

    An `fsync` of each of thousands of small files and folders costs seconds, one `syncfs` a fraction of one.
    """
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        if syncfs(opened) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(opened)


def names_its_folder(file: PackedFile) -> bool:
    """Whether a file is rewritten on restore, and so is not as it was packed."""
    return _NAMES_ITS_FOLDER.fullmatch(file.path) is not None


def relocate(root: Path, files: Iterable[PackedFile], into: Path) -> None:
    """Rewrite files that name their own folder: `root` is about to be renamed to `into`."""
    home = json.dumps("file:" + str(into.absolute()))[1:-1]
    for file in files:
        if names_its_folder(file):
            target = root / file.path
            text = _SCHEMA_PATH.sub(lambda match: f'"{home}/{match[1]}', target.read_text())
            target.write_text(text)


@dataclass(frozen=True, slots=True)
class LinkSource:
    """A folder that a snapshot was restored into; Spark may have added and removed files since."""

    folder: Path
    manifest: Manifest


def link_files(base: LinkSource, files: Iterable[PackedFile], root: Path) -> list[PackedFile]:
    """Link the files that the base has verified with the same digest; returns the others, to be fetched."""
    verified = {
        file.path: file.sha256 for file in base.manifest.files if not names_its_folder(file)
    }
    return [
        file
        for file in files
        if verified.get(file.path) != file.sha256
        or not _link_file(base.folder / file.path, root / file.path, file.size_bytes)
    ]


def create_in_folder(file: Path, make: Callable[[], T]) -> T:
    """Make a file, and its folder if it is missing."""
    try:
        return make()
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
    return make()


def _link_file(source: Path, target: Path, size_bytes: int) -> bool:
    """Whether the file could be linked; on any error of the disk the file is fetched instead."""
    try:
        create_in_folder(target, lambda: target.hardlink_to(source))
        if target.stat().st_size == size_bytes:
            return True
        target.unlink()
    except OSError:
        pass
    return False


@dataclass(frozen=True, slots=True)
class Fetch:
    """One range of one pack and the files in it: one request; only a larger file exceeds the limit."""

    pack: str
    start: int
    length: int
    files: tuple[PackedFile, ...]


def plan_fetches(files: Iterable[PackedFile]) -> list[Fetch]:
    """Few ranges that cover all files: near neighbours are read together, with the gaps between them."""
    fetches: list[Fetch] = []
    group: list[PackedFile] = []
    for file in sorted(files, key=lambda f: (f.pack, f.offset, f.size_bytes, f.path)):
        if group and not _joins(group, file):
            fetches.append(_fetch(group))
            group = []
        group.append(file)
    return [*fetches, _fetch(group)] if group else fetches


def _joins(group: Sequence[PackedFile], file: PackedFile) -> bool:
    last = group[-1]
    gap = file.offset - (last.offset + last.size_bytes)
    near = 0 <= gap <= _GAP_BYTES  # files may share a place: equal packs of a snapshot are one
    fits = file.offset + file.size_bytes - group[0].offset <= _FETCH_BYTES
    return file.pack == last.pack and near and fits


def _fetch(group: Sequence[PackedFile]) -> Fetch:
    end = group[-1].offset + group[-1].size_bytes
    return Fetch(group[0].pack, group[0].offset, end - group[0].offset, tuple(group))


def read_files(
    store: ObjectStore, prefix: str, fetch: Fetch
) -> Iterator[tuple[PackedFile, Iterator[memoryview]]]:
    """Each file of a range with its bytes as they arrive, which must be read before the next file."""
    flow = _Flow(store.read(prefix + fetch.pack, start=fetch.start, length=fetch.length))
    at = fetch.start
    for file in fetch.files:
        for _ in flow.take(file.offset - at):
            pass
        yield file, flow.take(file.size_bytes)
        at = file.offset + file.size_bytes


class _Flow:
    """Bytes that arrive in parts, read in other lengths."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = memoryview(b"")

    def take(self, length: int) -> Iterator[memoryview]:
        """The next `length` bytes; fewer if the source ends."""
        while length > 0:
            if not self._rest:
                self._rest = memoryview(next(self._parts, b""))
            part, self._rest = self._rest[:length], self._rest[length:]
            if not part:
                return
            length -= len(part)
            yield part


def find_fault(file: PackedFile, size_bytes: int, digest: bytes) -> str | None:
    """How the fetched bytes of a file differ from its manifest; `None` if they match."""
    if size_bytes != file.size_bytes:
        return f"{file.path}: {size_bytes} of {file.size_bytes} bytes in pack {file.pack}"
    if digest != file.sha256:
        return f"{file.path}: wrong digest in pack {file.pack}"
    return None


def find_wrong_packs(manifest: Manifest, sizes: Mapping[str, int]) -> list[str]:
    """The packs of a snapshot that are missing or not as long as they should be."""
    return [
        f"pack {name} is missing"
        if name not in sizes
        else f"pack {name} has {sizes[name]} bytes, not {size}"
        for name, size in manifest.packs.items()
        if sizes.get(name) != size
    ]


def find_wrong_digests(store: ObjectStore, prefix: str, files: Iterable[PackedFile]) -> list[str]:
    """Read all files; returns a problem for each whose bytes do not match the manifest."""
    problems: list[str] = []
    for fetch in plan_fetches(files):
        try:
            for file, parts in read_files(store, prefix, fetch):
                digest, size = hashlib.sha256(), 0
                for part in parts:
                    digest.update(part)
                    size += len(part)
                wrong = find_fault(file, size, digest.digest())
                problems += [wrong] if wrong else []
        except MissingObjectError:
            problems.append(f"pack {fetch.pack} is missing")
    return problems


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes that were fetched, including the gaps between files."""

    bytes: int
    requests: int


def restore_files(
    store: ObjectStore,
    prefix: str,
    manifest: Manifest,
    into: Path,
    progress: Callable[[int, int], None] | None,
    *,
    base: LinkSource | None,
    durable: bool,
) -> Fetched:
    """Restore all files of a manifest into a new folder; files that `base` has are linked."""
    if into.exists():
        raise PermanentError(
            f"the snapshot cannot be restored: {into} exists already",
            hint="restore into a new folder, or remove this one",
        )
    into.parent.mkdir(parents=True, exist_ok=True)
    beside = into.parent / f".{into.name}.{secrets.token_hex(4)}.part"
    try:
        with disk_errors("restoring", into.parent):
            beside.mkdir()
            missing = manifest.files if base is None else link_files(base, manifest.files, beside)
            fetches = plan_fetches(missing)
            with _unusable_files(manifest.id):
                _fetch_all(store, prefix, fetches, beside, manifest, progress)
                relocate(beside, manifest.files, into)
            if durable:
                sync_file_system(beside)
            beside.rename(into)
            if durable:
                sync_file_system(into.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    requests = sum(1 for fetch in fetches if fetch.length)
    return Fetched(sum(fetch.length for fetch in fetches), requests)


@contextmanager
def _unusable_files(snapshot_id: str) -> Iterator[None]:
    """Turn what the file system does not accept, or what cannot be rewritten, into a refused snapshot."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _REFUSED_NAMES:
            raise
        raise UnusableSnapshotError(
            f"snapshot {snapshot_id} cannot be restored: {error}", hint="use another snapshot"
        ) from error


def _fetch_all(
    store: ObjectStore,
    prefix: str,
    fetches: Sequence[Fetch],
    root: Path,
    manifest: Manifest,
    progress: Callable[[int, int], None] | None,
) -> None:
    total = manifest.state_bytes
    done = total - sum(file.size_bytes for fetch in fetches for file in fetch.files)
    if progress is not None:
        progress(done, total)
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="restore") as pool:
        pending: set[Future[int]] = {
            pool.submit(_fetch_range, store, prefix, fetch, root, manifest.id) for fetch in fetches
        }
        try:
            while pending:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                done += sum(future.result() for future in finished)
                if progress is not None:
                    progress(done, total)
        finally:
            for future in pending:
                future.cancel()


def _fetch_range(
    store: ObjectStore, prefix: str, fetch: Fetch, root: Path, snapshot_id: str
) -> int:
    """Write the files of one range, each verified; returns their bytes."""
    try:
        for file, parts in read_files(store, prefix, fetch):
            wrong = _write(root / file.path, parts, file)
            if wrong is not None:
                raise UnusableSnapshotError(
                    f"snapshot {snapshot_id} is damaged: {wrong}", hint="use another snapshot"
                )
    except MissingObjectError as error:
        raise UnusableSnapshotError(
            f"snapshot {snapshot_id} is damaged: pack {fetch.pack} is missing",
            hint="use another snapshot",
        ) from error
    return sum(file.size_bytes for file in fetch.files)


def _write(target: Path, parts: Iterable[memoryview], file: PackedFile) -> str | None:
    digest = hashlib.sha256()
    written = 0
    with create_in_folder(target, lambda: target.open("xb")) as out:
        for part in parts:
            digest.update(part)
            out.write(part)
            written += len(part)
    return find_fault(file, written, digest.digest())
