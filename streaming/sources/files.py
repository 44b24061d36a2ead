"""Files that arrive in a folder or under an S3 prefix, each assigned to exactly one epoch.

Unassigned files are taken in the order of their names. A file's size and time of change are
written to the epoch log with its name: a file that is not the same when it is read again is an
error, never other data.
"""

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from holdfast.configs.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.streaming.sources.base import Backlog, Json, Split, Taken
from holdfast.streaming.sources.formats import count_rows, read_rows
from holdfast.streaming.sources.validation import RecordValidator, RejectedRecord, ValidatedBatch

ASKED_AT_ONCE = 500

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A file that waits for its epoch."""

    name: str
    size_bytes: int
    changed_ns: int
    rows: int
    aside: tuple[int, ...]

    def assigned(self) -> Json:
        """What the epoch log keeps of it."""
        aside = {"aside": list(self.aside)} if self.aside else {}
        identity = {"name": self.name, "size": self.size_bytes, "changed_ns": self.changed_ns}
        return {**identity, "rows": self.rows, **aside}


def files_read(taken: Json) -> list[Json]:
    """The files of an epoch, without those that are lost and skipped."""
    return [file for file in taken.get("files", ()) if not file.get("skipped")]


def records_aside(taken: Json) -> int:
    """How many records of an epoch are rejected."""
    return sum(len(file.get("aside", ())) for file in files_read(taken))


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the folder lists it; another size or time of change makes it another file."""

    name: str
    size_bytes: int
    changed_ns: int


def none_assigned(_files: Sequence[ListedFile]) -> set[str]:
    """For a source that only reads decided epochs and never proposes one."""
    return set()


@dataclass
class FilesSource:
    """The files of one folder; `assigned` returns the names of these files that an epoch has already.

    Files that are known to be assigned are not asked for again while they are listed unchanged, and the others only
    in portions, as far as the next epoch needs them. With a `validator` bad records are rejected; without
    one they are an error.
    """

    declared: FilesDeclaration
    schema: pa.Schema
    filesystem: fs.FileSystem
    root: str
    assigned: Callable[[Sequence[ListedFile]], set[str]]
    validator: RecordValidator | None = None
    _counted: dict[tuple[str, int, int], ValidatedBatch] = field(default_factory=dict)
    _arrived: list[fs.FileInfo] = field(default_factory=list)
    _taken: set[ListedFile] = field(default_factory=set)
    _listed_at: float = float("-inf")
    _seen_at: dict[ListedFile, float] = field(default_factory=dict)
    _arrived_at: dict[ListedFile, float] = field(default_factory=dict)

    def waiting_rows(self, position: Json | None, *, now: float, enough: int | None = None) -> int:
        """Count the rows of the files that no epoch has; each file is read once, and only if needed."""
        rows = 0
        for file in self._waiting(now):
            rows += file.rows
            if enough is not None and rows >= enough:
                break
        return rows

    def take(self, position: Json | None, rows: int, *, now: float) -> Taken:
        """Take whole files, at least one if any waits, up to about `rows` rows."""
        files = _first(self._waiting(now), rows) if rows else []
        return Taken(
            end={"files": _files_before(position) + len(files)},
            input={"files": [file.assigned() for file in files]},
            rows=sum(file.rows for file in files),
        )

    def skip(
        self, position: Json | None, recent: Sequence[Json], *, before: float, now: float
    ) -> Taken | None:
        """Assign the files that were last changed before that time, each marked as skipped.

        Their rows are estimated from their sizes; only without a recent file to compare with, one of them is opened.
        """
        infos = [
            info
            for portion in self._portions(now)
            for info in self._unassigned(portion)
            if self._changed_ns(info) < before * 1e9
        ]
        if not infos:
            return None
        density = _rows_per_byte(recent)
        if density is None:
            counted = next((file for info in infos if (file := self._measured(info))), None)
            density = 0.0 if counted is None else counted.rows / max(counted.size_bytes, 1)
        files = [
            Arrived(
                name=info.base_name,
                size_bytes=info.size,
                changed_ns=self._changed_ns(info),
                rows=round(info.size * density),
                aside=(),
            )
            for info in infos
        ]
        return Taken(
            end={"files": _files_before(position) + len(files)},
            input={"files": [{**file.assigned(), "skipped": True} for file in files]},
            rows=0,
        )

    def backlog(self, position: Json | None, recent: Sequence[Json], *, now: float) -> Backlog:
        """List the files that no epoch has, and open none: their rows are estimated from their sizes."""
        waiting = [info for portion in self._portions(now) for info in self._unassigned(portion)]
        waiting_bytes, density = sum(info.size for info in waiting), _rows_per_byte(recent)
        return Backlog(
            rows=None
            if density is None and waiting_bytes
            else round(waiting_bytes * (density or 0.0)),
            oldest_at=min((self._arrival(self._as_listed(info)) for info in waiting), default=None),
        )

    def arrived_at(self, taken: Json, end: Json) -> float | None:
        """When the oldest file of the epoch arrived."""
        files = (
            ListedFile(file["name"], file["size"], file["changed_ns"]) for file in files_read(taken)
        )
        return min((self._arrival(file) for file in files), default=None)

    def _arrival(self, file: ListedFile) -> float:
        """When a file was last changed, or the listing before it was there: a moved file keeps its old time."""
        return max(file.changed_ns / 1e9, self._arrived_at.get(file, float("-inf")))

    def splits(self, taken: Json) -> Sequence[Split]:
        """One split a file; raises while the folder is away."""
        if files_read(taken):
            self._require_folder()
        return [Split(input=file) for file in files_read(taken)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read a file; raises if it has changed since its epoch was decided."""
        path, aside = self._path(split.input["name"]), split.input.get("aside", ())
        rows = (
            read_rows(self.declared, self.filesystem, path, self.schema)
            if self.validator is None
            else self.validator.read(self.filesystem, path, aside)
        )
        yield from self._unchanged(split.input, rows)

    def aside(self, taken: Json) -> Iterator[tuple[str, RejectedRecord]]:
        """The rejected records of an epoch, each with the name of its file."""
        for file in files_read(taken):
            if self.validator is not None and "aside" in file:
                path = self._path(file["name"])
                records = self.validator.rejected(self.filesystem, path, file["aside"])
                yield from ((file["name"], record) for record in self._unchanged(file, records))

    def lacking(self, inputs: Iterable[Json]) -> list[str]:
        """The files of these epochs that are missing or have changed, from one listing."""
        there = {
            info.base_name: (info.size, self._changed_ns(info))
            for info in self._listed()
            if info.is_file
        }
        return [
            file["name"]
            for taken in inputs
            for file in files_read(taken)
            if there.get(file["name"]) != (file["size"], file["changed_ns"])
        ]

    def files(self) -> list[ListedFile]:
        """The input files that are there, in the order of their names."""
        infos = (info for info in self._listed() if info.is_file and self.is_input(info.base_name))
        return sorted((self._as_listed(info) for info in infos), key=lambda file: file.name)

    def delete(self, file: ListedFile) -> None:
        """Delete a file, unless it is gone or has become another."""
        path = self._path(file.name)
        try:
            info = self.filesystem.get_file_info(path)
            if info.is_file and self._as_listed(info) == file:
                self.filesystem.delete_file(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise TransientError(
                f"cannot delete {path}: {error}", hint="allow this user to write to the folder"
            ) from error

    def _unchanged(self, file: Json, reading: Iterator[Read]) -> Iterator[Read]:
        self._require_unchanged(file)
        try:
            yield from reading
        except FileNotFoundError:
            pass  # `_require_unchanged` raises, with a hint
        except OSError as error:
            raise _unreadable(file["name"], error) from error
        self._require_unchanged(file)

    def _waiting(self, now: float) -> Iterator[Arrived]:
        for portion in self._portions(now):
            for info in self._unassigned(portion):
                if (file := self._measured(info)) is not None:
                    yield file

    def _portions(self, now: float) -> Iterator[list[fs.FileInfo]]:
        """The files that have settled, in the order of their names and as many at once as are asked for."""
        if not 0 <= now - self._listed_at < self.declared.poll:  # negative: the clock was set back
            self._arrived = self._settled(now)
            self._listed_at = now
        arrived = self._arrived
        for first in range(0, len(arrived), ASKED_AT_ONCE):
            yield arrived[first : first + ASKED_AT_ONCE]

    def _unassigned(self, infos: Sequence[fs.FileInfo]) -> list[fs.FileInfo]:
        files = [file for info in infos if (file := self._as_listed(info)) not in self._taken]
        names = self.assigned(files) if files else set()
        self._taken.update(file for file in files if file.name in names)
        return [info for info in infos if self._as_listed(info) not in self._taken]

    def _listed(self) -> list[fs.FileInfo]:
        try:
            listed: list[fs.FileInfo] = self.filesystem.get_file_info(
                fs.FileSelector(self.root, recursive=False, allow_not_found=True)
            )
        except OSError as error:
            raise TransientError(
                f"cannot list {self.declared.path}: {error}",
                hint="make the folder readable: the stream waits, and continues then",
            ) from error
        if not listed:
            self._require_folder()
        return listed

    def _require_folder(self) -> None:
        """Raise while the folder is away, as an unmounted disk is; on S3, where folders are only names, the bucket."""
        local = isinstance(self.filesystem, fs.LocalFileSystem)
        folder = self.root if local else self.root.split("/", 1)[0]
        try:
            info = self.filesystem.get_file_info(folder)
        except OSError as error:
            raise _unreadable(folder, error) from error
        if info.type is fs.FileType.NotFound:
            raise TransientError(
                f"the input folder {self.declared.path} is away",
                hint="mount or create it: the stream waits, and continues then",
            )

    def _settled(self, now: float) -> list[fs.FileInfo]:
        """The files that have not changed for long enough, by their time or since they were first listed as they are.

        After the clock was set back the times of files are in the future.
        """
        infos = [info for info in self._listed() if info.is_file and self.is_input(info.base_name)]
        there = {self._as_listed(info) for info in infos}
        self._taken &= there
        last_listed_at = min(self._listed_at, now)
        self._arrived_at = {file: self._arrived_at.get(file, last_listed_at) for file in there}
        self._seen_at = {
            file: min(self._seen_at.get(file, now), now)
            for info in infos
            if (file := self._as_listed(info)) not in self._taken
        }
        settled = [
            info
            for info in infos
            if (seen_at := self._seen_at.get(self._as_listed(info))) is not None
            and now - min(info.mtime_ns / 1e9, seen_at) >= self.declared.settle
        ]
        waiting = {_count_key(info) for info in settled}
        self._counted = {key: count for key, count in self._counted.items() if key in waiting}
        return sorted(settled, key=lambda info: info.base_name)

    def _as_listed(self, info: fs.FileInfo) -> ListedFile:
        return ListedFile(info.base_name, info.size, self._changed_ns(info))

    def is_input(self, name: str) -> bool:
        """Whether a file of this name is input."""
        return not name.startswith((".", "_")) and fnmatch.fnmatch(name, self.declared.pattern)

    def _measured(self, info: fs.FileInfo) -> Arrived | None:
        """Count a file's rows; a file that was deleted since it was listed was never input."""
        key = _count_key(info)
        if key not in self._counted:
            try:
                self._counted[key] = self._validated(info.path)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise _unreadable(info.path, error) from error
        validated = self._counted[key]
        return Arrived(
            name=info.base_name,
            size_bytes=info.size,
            changed_ns=self._changed_ns(info),
            rows=validated.rows,
            aside=validated.aside,
        )

    def _validated(self, path: str) -> ValidatedBatch:
        if self.validator is not None:
            return self.validator.validate(self.filesystem, path)
        rows = count_rows(self.declared, self.filesystem, path, self.schema)
        return ValidatedBatch(rows=rows, aside=())

    def fault(self, file: Json) -> str | None:
        """Why the file of an epoch cannot be read again as it was; `None` if it can."""
        try:
            info = self.filesystem.get_file_info(self._path(file["name"]))
        except OSError as error:
            raise _unreadable(file["name"], error) from error
        if not info.is_file:
            self._require_folder()
            return f"is gone from {self.declared.path}"
        if (info.size, self._changed_ns(info)) != (file["size"], file["changed_ns"]):
            return (
                f"in {self.declared.path} has changed since it was "
                f"assigned to an epoch ({file['size']} bytes then, {info.size} now)"
            )
        return None

    def _require_unchanged(self, file: Json) -> None:
        fault = self.fault(file)
        if fault is not None:
            raise PermanentError(
                f"input file {file['name']} {fault}",
                hint="put the original file back: its epoch was decided with it, and is replayed "
                "from it",
            )

    def _changed_ns(self, info: fs.FileInfo) -> int:
        """When a file was last changed; S3 has whole seconds when asked for one object."""
        local = isinstance(self.filesystem, fs.LocalFileSystem)
        return int(info.mtime_ns if local else info.mtime_ns // 1_000_000_000 * 1_000_000_000)

    def _path(self, name: str) -> str:
        return str(PurePosixPath(self.root) / name)


def _files_before(position: Json | None) -> int:
    return 0 if position is None else int(position["files"])


def _rows_per_byte(recent: Sequence[Json]) -> float | None:
    """What the files of recent epochs had; `None` if they had no files, or only empty ones."""
    files = [file for taken in recent for file in files_read(taken)]
    size, rows = (sum(file[of] for file in files) for of in ("size", "rows"))
    return rows / size if size else None


def _count_key(info: fs.FileInfo) -> tuple[str, int, int]:
    return info.base_name, info.size, info.mtime_ns


def _unreadable(path: str, error: OSError) -> TransientError:
    return TransientError(
        f"cannot read {path}: {error}",
        hint="wait: the read is retried until the storage is available",
    )


def _first(files: Iterator[Arrived], rows: int) -> list[Arrived]:
    """The first files that fit into `rows`; a file that is too large is taken alone."""
    taken: list[Arrived] = []
    for file in files:
        rows -= file.rows
        if taken and rows < 0:
            break
        taken.append(file)
        if rows <= 0:
            break
    return taken
