"""The folder or S3 prefix that input arrives in: the files that are new in it, and whether it is there at all.

A folder keeps files that were read long ago. They cost a listing of their names, and nothing more: not even that
while the folder is unchanged.
"""

import os
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from pyarrow import fs

from holdfast.ft_policies.errors import TransientError

QUIET_SECONDS = 3.0
"""Longer than the times of any file system are coarse: a change after a listing has another time than one before."""
LISTED_AGAIN_SECONDS = 60.0
SYSTEM_DISK = "/"
LOCAL_FILESYSTEMS = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
"""Where a folder's time of change is never out of date; network and user-space file systems may cache it."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the folder lists it; another size or time of change makes it another file.

    It arrived when it was uploaded or moved into the folder; a moved file keeps its time of change.
    """

    name: str
    size_bytes: int
    changed_ns: int
    arrived_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Mount:
    """The file system that a path is on."""

    point: str
    kind: str


def find_mount(path: str, table: Path = Path("/proc/self/mountinfo")) -> Mount:
    """The mount that a path is on now."""
    path, mount = os.path.realpath(path), Mount(SYSTEM_DISK, "")
    for line in table.read_bytes().splitlines():
        place, _, device = line.partition(b" - ")
        point = os.fsdecode(place.split()[4].decode("unicode_escape").encode("latin-1"))
        is_above = PurePosixPath(path).is_relative_to(point)
        if is_above and len(point) >= len(mount.point):  # the later of two hides the other
            mount = Mount(point, device.split()[0].decode())
    return mount


class InputFolder(Protocol):
    """Where input arrives."""

    mount: str | None
    """Where the disk with the folder was mounted when files were last seen in it; `None` if none were."""

    def list(
        self, taken: Collection[str], again: Collection[str], *, now: float, mount: str | None
    ) -> Sequence[ListedFile]:
        """The input files, of the known ones only those that are asked for again; raises while the folder is away."""

    def find(self, name: str) -> ListedFile | None:
        """One file as it is now."""

    def require(self, mount: str | None) -> None:
        """Raise while the folder is away."""


@dataclass
class RemoteFolder:
    """A prefix in a bucket. Its listing has sizes and times, so no file is asked for alone."""

    filesystem: fs.FileSystem
    root: str
    path: str
    is_input: Callable[[str], bool]
    mount: str | None = None

    def list(
        self, taken: Collection[str], again: Collection[str], *, now: float, mount: str | None
    ) -> Sequence[ListedFile]:
        """List the prefix, a page of names for each thousand objects."""
        try:
            infos = self.filesystem.get_file_info(
                fs.FileSelector(self.root, recursive=False, allow_not_found=True)
            )
        except OSError as error:
            raise listing_error(self.path, error) from error
        if not infos:
            self.require(mount)
        return [
            self._as_listed(info)
            for info in infos
            if ((name := info.base_name) not in taken or name in again)
            and self.is_input(name)
            and info.is_file
        ]

    def find(self, name: str) -> ListedFile | None:
        """Ask for one object."""
        info = self.filesystem.get_file_info(f"{self.root.rstrip('/')}/{name}")
        return self._as_listed(info) if info.is_file else None

    def require(self, mount: str | None) -> None:
        """Raise if the bucket is away: folders are only names."""
        bucket = self.root.split("/", 1)[0]
        try:
            info = self.filesystem.get_file_info(bucket)
        except OSError as error:
            raise unreadable(bucket, error) from error
        if info.type is fs.FileType.NotFound:
            raise _away(self.path)

    def _as_listed(self, info: fs.FileInfo) -> ListedFile:
        """S3 has whole seconds when it is asked for one object."""
        changed_ns = info.mtime_ns // 1_000_000_000 * 1_000_000_000
        return ListedFile(info.base_name, info.size, changed_ns, changed_ns)


@dataclass
class LocalFolder:
    """A folder on a disk. Its names are read only if it has changed, and a file's size and time only if it is new."""

    root: str
    path: str
    is_input: Callable[[str], bool]
    find_mount: Callable[[str], Mount] = find_mount
    mount: str | None = None
    _kind: str = ""
    _names: Sequence[str] = ()
    _state: tuple[int, int, int] | None = None
    _unchanged_since: float = float("inf")
    _listed_at: float = float("-inf")

    def list(
        self, taken: Collection[str], again: Collection[str], *, now: float, mount: str | None
    ) -> Sequence[ListedFile]:
        """Look at the files that are not known, and at those that are asked for again."""
        try:
            names = self._names if self._is_unchanged(now) else self._read_names(now, mount)
            self._names = [name for name in names if name not in taken and self.is_input(name)]
            files = (self._find(name) for name in dict.fromkeys((*self._names, *again)))
            return [file for file in files if file is not None]
        except FileNotFoundError as error:
            raise _away(self.path) from error
        except OSError as error:
            raise listing_error(self.path, error) from error

    def find(self, name: str) -> ListedFile | None:
        return self._find(name)

    def require(self, mount: str | None) -> None:
        """Raise if there is no folder, or only the empty one that a disk is mounted over."""
        try:
            mounted = self.find_mount(self.root)
            with os.scandir(self.root) as entries:
                self._require_mounted(any(entries), mount, mounted)
        except FileNotFoundError as error:
            raise _away(self.path) from error
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _is_unchanged(self, now: float) -> bool:
        """Whether the folder has the same names as when it was last read.

        Its time of change says so on a local file system, once the folder was read some time after it. That it is
        read every minute all the same is a precaution.
        """
        status = Path(self.root).stat()
        state = (status.st_dev, status.st_ino, status.st_mtime_ns)
        if state != self._state or now < self._unchanged_since:
            self._state, self._unchanged_since = state, now
        return (
            self._kind in LOCAL_FILESYSTEMS
            and self._listed_at - self._unchanged_since >= QUIET_SECONDS
            and 0 <= now - self._listed_at < LISTED_AGAIN_SECONDS
        )

    def _read_names(self, now: float, mount: str | None) -> Sequence[str]:
        mounted = self.find_mount(self.root)  # before the names: an unmounted folder has none
        names = os.listdir(self.root)  # noqa: PTH208 - a tenth of the time of a Path for each
        self._require_mounted(bool(names), mount, mounted)
        self._kind, self._listed_at = mounted.kind, now
        if names:
            self.mount = mounted.point
        return names

    def _require_mounted(self, has_files: bool, mount: str | None, mounted: Mount) -> None:  # noqa: FBT001
        expected = self.mount or mount
        if not has_files and expected not in (None, SYSTEM_DISK, mounted.point):
            raise TransientError(
                f"the input folder {self.path} is away: it was on a disk at {expected}, and is empty",
                hint="mount the disk: the stream waits, and continues then; if its files are lost for good, put any "
                "file into the folder",
            )

    def _find(self, name: str) -> ListedFile | None:
        try:
            status = os.stat(f"{self.root}/{name}")  # noqa: PTH116 - a third of the time of a Path
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return ListedFile(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def listing_error(path: str, error: OSError) -> TransientError:
    """A folder that cannot be read now."""
    return TransientError(
        f"cannot list {path}: {error}",
        hint="make the folder readable: the stream waits, and continues then",
    )


def unreadable(path: str, error: OSError) -> TransientError:
    """A file or folder that cannot be read now."""
    return TransientError(
        f"cannot read {path}: {error}",
        hint="wait: the read is retried until the storage is available",
    )


def _away(path: str) -> TransientError:
    return TransientError(
        f"the input folder {path} is away",
        hint="mount or create it: the stream waits, and continues then",
    )
