"""Files that arrive in a folder or under an S3 prefix, each assigned to exactly one epoch.

Unassigned files are taken in the order of their names. A file's size and time of change are
written to the epoch log with its name: a file that is not the same when it is read again is an
error, never other data.
"""

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.streaming.sources.base import Backlog, Json, Split, Taken
from holdfast.streaming.sources.folder import (
    SYSTEM_DISK,
    InputFolder,
    ListedFile,
    LocalFolder,
    Mount,
    RemoteFolder,
    find_mount,
    unreadable,
)
from holdfast.streaming.sources.formats import count_rows, read_rows
from holdfast.streaming.sources.validation import RecordValidator, RejectedRecord, ValidatedBatch

ASKED_AT_ONCE = 500
LOOKED_AT_AGAIN = 100
"""So many taken files are looked at with each listing, or a thousandth of them, the one before the other."""
LISTINGS_TO_LOOK_AT_ALL = 1_000
MOVED_KEPT = 10_000
"""Of so many files it is remembered that they were moved into the folder, until they are committed."""
MOUNT, TAKEN_UNTIL = "mount", "taken_until_ns"
"""Of a position: where the folder's disk is mounted, and before which time no waiting file has arrived."""
MARGIN_NS = 3_600 * 10**9
"""Clocks of a file system and of those who upload differ by less."""

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A file that waits for its epoch."""

    file: ListedFile
    rows: int
    aside: tuple[int, ...] = ()

    def build_entry(self, mount: str | None) -> Json:
        """What the epoch log keeps of it."""
        file, aside = self.file, {"aside": list(self.aside)} if self.aside else {}
        identity = {"name": file.name, "size": file.size_bytes, "changed_ns": file.changed_ns}
        return {**identity, "rows": self.rows, **aside, **_on(mount)}


def files_read(taken: Json) -> list[Json]:
    """The files of an epoch, without those that are lost and skipped."""
    return [file for file in taken.get("files", ()) if not file.get("skipped")]


def records_aside(taken: Json) -> int:
    """How many records of an epoch are rejected."""
    return sum(len(file.get("aside", ())) for file in files_read(taken))


def none_assigned(_files: Sequence[ListedFile]) -> set[str]:
    """For a source that only reads decided epochs and never proposes one."""
    return set()


@dataclass
class FilesSource:
    """The files of one folder; `assigned` returns the names of these files that an epoch has already.

    A file that an epoch has is remembered by its name while it is there, and costs nothing more; a few of them are
    looked at with each listing, so a replaced one is noticed in time. A new replica knows from the position how
    new the files are that may wait: it believes that the older ones are taken, until it comes to look at them. The
    others are asked for in portions, as far as the next epoch needs them. With a `validator` bad records are
    rejected; without one they are an error.
    """

    declared: FilesDeclaration
    schema: pa.Schema
    filesystem: fs.FileSystem
    root: str
    assigned: Callable[[Sequence[ListedFile]], set[str]]
    validator: RecordValidator | None = None
    find_mount: Callable[[str], Mount] = find_mount
    _counted: dict[ListedFile, ValidatedBatch] = field(default_factory=dict)
    _arrived: list[ListedFile] = field(default_factory=list)
    _taken: dict[str, int | None] = field(default_factory=dict)
    """The names of the files that epochs have, each with the hash of the file if an epoch is known to have it."""
    _listed_at: float = float("-inf")
    _seen_at: dict[ListedFile, float] = field(default_factory=dict)
    _moved_at: dict[ListedFile, float] = field(default_factory=dict)

    @cached_property
    def _folder(self) -> InputFolder:
        if isinstance(self.filesystem, fs.LocalFileSystem):
            return LocalFolder(self.root, self.declared.path, self.is_input, self.find_mount)
        return RemoteFolder(self.filesystem, self.root, self.declared.path, self.is_input)

    def waiting_rows(self, position: Json | None, *, now: float, enough: int | None = None) -> int:
        """Count the rows of the files that no epoch has; each file is read once, and only if needed."""
        rows = 0
        for file in self._waiting(position, now):
            rows += file.rows
            if enough is not None and rows >= enough:
                break
        return rows

    def take(self, position: Json | None, rows: int, *, now: float) -> Taken:
        """Take whole files, at least one if any waits, up to about `rows` rows."""
        files = _first(self._waiting(position, now), rows) if rows else []
        return Taken(
            end=self._end(position, files),
            input={"files": [file.build_entry(self._folder.mount) for file in files]},
            rows=sum(file.rows for file in files),
        )

    def skip(
        self, position: Json | None, recent: Sequence[Json], *, before: float, now: float
    ) -> Taken | None:
        """Assign the files that were last changed before that time, each marked as skipped.

        Their rows are estimated from their sizes; only without a recent file to compare with, one of them is opened.
        """
        listed = [
            file
            for portion in self._portions(position, now)
            for file in self._list_unassigned(portion)
            if file.changed_ns < before * 1e9
        ]
        if not listed:
            return None
        density = _rows_per_byte(recent)
        if density is None:
            counted = next(
                (arrived for file in listed if (arrived := self._measure_file(file))), None
            )
            density = 0.0 if counted is None else counted.rows / max(counted.file.size_bytes, 1)
        files = [Arrived(file=file, rows=round(file.size_bytes * density)) for file in listed]
        assigned = [file.build_entry(self._folder.mount) for file in files]
        return Taken(
            end=self._end(position, files),
            input={"files": [{**file, "skipped": True} for file in assigned]},
            rows=0,
        )

    def backlog(self, position: Json | None, recent: Sequence[Json], *, now: float) -> Backlog:
        """List the files that no epoch has, and open none: their rows are estimated from their sizes."""
        waiting = [
            file
            for portion in self._portions(position, now)
            for file in self._list_unassigned(portion)
        ]
        waiting_bytes, density = sum(file.size_bytes for file in waiting), _rows_per_byte(recent)
        return Backlog(
            rows=None
            if density is None and waiting_bytes
            else round(waiting_bytes * (density or 0.0)),
            oldest_at=min((self._arrival(file) for file in waiting), default=None),
        )

    def arrived_at(self, taken: Json, end: Json) -> float | None:
        """When the oldest file of the epoch arrived."""
        files = (
            ListedFile(file["name"], file["size"], file["changed_ns"]) for file in files_read(taken)
        )
        return min((self._arrival(file) for file in files), default=None)

    def _arrival(self, file: ListedFile) -> float:
        """When a file was last changed, or the listing before it was there: a moved file keeps its old time."""
        return max(file.changed_ns / 1e9, self._moved_at.get(file, float("-inf")))

    def splits(self, taken: Json) -> Sequence[Split]:
        """One split a file; raises while the folder is away."""
        files = files_read(taken)
        if files:
            self._folder.require(files[0].get(MOUNT))
        return [Split(input=file) for file in files]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read a file; raises if it has changed since its epoch was decided."""
        path, aside = self._path(split.input["name"]), split.input.get("aside", ())
        rows = (
            read_rows(self.declared, self.filesystem, path, self.schema)
            if self.validator is None
            else self.validator.read(self.filesystem, path, aside)
        )
        yield from self._read_unchanged(split.input, rows)

    def aside(self, taken: Json) -> Iterator[tuple[str, RejectedRecord]]:
        """The rejected records of an epoch, each with the name of its file."""
        for file in files_read(taken):
            if self.validator is not None and "aside" in file:
                path = self._path(file["name"])
                records = self.validator.read_rejected(self.filesystem, path, file["aside"])
                yield from (
                    (file["name"], record) for record in self._read_unchanged(file, records)
                )

    def lacking(self, inputs: Iterable[Json]) -> list[str]:
        """The files of these epochs that are missing or have changed, from one listing."""
        present = {file.name: (file.size_bytes, file.changed_ns) for file in self.files(None)}
        return [
            file["name"]
            for taken in inputs
            for file in files_read(taken)
            if present.get(file["name"]) != (file["size"], file["changed_ns"])
            and self.fault(file) is not None  # it may have another pattern
        ]

    def files(self, position: Json | None) -> list[ListedFile]:
        """The input files that are there, in the order of their names; raises while the folder is away."""
        mount = (position or {}).get(MOUNT)
        files = self._folder.list((), (), now=float("inf"), mount=mount)
        return sorted(files, key=_by_name)

    def delete(self, file: ListedFile) -> None:
        """Delete a file, unless it is gone or has become another."""
        path = self._path(file.name)
        try:
            if self._folder.find(file.name) == file:
                self.filesystem.delete_file(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise TransientError(
                f"cannot delete {path}: {error}", hint="allow this user to write to the folder"
            ) from error

    def _read_unchanged(self, file: Json, reading: Iterator[Read]) -> Iterator[Read]:
        self._require_unchanged(file)
        try:
            yield from reading
        except FileNotFoundError:
            pass  # `_require_unchanged` raises, with a hint
        except OSError as error:
            raise unreadable(file["name"], error) from error
        self._require_unchanged(file)

    def _waiting(self, position: Json | None, now: float) -> Iterator[Arrived]:
        for portion in self._portions(position, now):
            for listed in self._list_unassigned(portion):
                if (file := self._measure_file(listed)) is not None:
                    yield file

    def _portions(self, position: Json | None, now: float) -> Iterator[list[ListedFile]]:
        """The files that have settled, in the order of their names and as many at once as are asked for."""
        if not 0 <= now - self._listed_at < self.declared.poll:  # negative: the clock was set back
            self._arrived = self._list_settled(self._list_waiting(position or {}, now), now)
            self._listed_at = now
        arrived = self._arrived
        for first in range(0, len(arrived), ASKED_AT_ONCE):
            yield arrived[first : first + ASKED_AT_ONCE]

    def _list_unassigned(self, files: Sequence[ListedFile]) -> list[ListedFile]:
        self._ask([file for file in files if file.name not in self._taken])
        return [file for file in files if file.name not in self._taken]

    def _ask(self, files: Sequence[ListedFile]) -> None:
        names = self.assigned(files) if files else set()
        self._taken.update((file.name, hash(file)) for file in files if file.name in names)

    def _list_waiting(self, position: Json, now: float) -> list[ListedFile]:
        """List the files that may wait."""
        share = max(LOOKED_AT_AGAIN, len(self._taken) // LISTINGS_TO_LOOK_AT_ALL)
        again = dict(islice(self._taken.items(), share))
        files = self._folder.list(self._taken, again, now=now, mount=position.get(MOUNT))
        for name in again:
            del self._taken[name]
        is_first = self._listed_at == float("-inf")
        old_ns = position.get(TAKEN_UNTIL, 0) - MARGIN_NS
        for file in files:
            if is_first and file.arrived_ns < old_ns:
                self._taken[file.name] = None
            elif again.get(file.name) == hash(file):
                self._taken[file.name] = hash(file)
        self._ask([file for file in files if file.name in again and file.name not in self._taken])
        return [file for file in files if file.name not in self._taken]

    def _end(self, position: Json | None, files: Sequence[Arrived]) -> Json:
        """The position after these files, with the time before which no file that waits has arrived."""
        before, taken = position or {"files": 0}, {arrived.file.name for arrived in files}
        arrivals = [arrived.file.arrived_ns for arrived in files]
        waiting = [
            file.arrived_ns
            for file in self._seen_at
            if file.name not in taken and file.name not in self._taken
        ]
        until = min(waiting) if waiting else max(arrivals, default=before.get(TAKEN_UNTIL))
        end = {
            "files": before["files"] + len(files),
            **_on(self._folder.mount or before.get(MOUNT)),
        }
        return end if until is None else {**end, TAKEN_UNTIL: until}

    def _list_settled(self, files: Sequence[ListedFile], now: float) -> list[ListedFile]:
        """Those that have not changed for long enough, by their time or since they were first listed as they are.

        After the clock was set back the times of files are in the future.
        """
        last_listed_at = min(self._listed_at, now)
        for file in files:
            if file not in self._seen_at and last_listed_at > file.changed_ns / 1e9:
                self._moved_at[file] = last_listed_at
        for file in list(islice(self._moved_at, max(len(self._moved_at) - MOVED_KEPT, 0))):
            del self._moved_at[file]
        self._seen_at = {file: min(self._seen_at.get(file, now), now) for file in files}
        settled = [
            file
            for file, seen_at in self._seen_at.items()
            if now - min(file.changed_ns / 1e9, seen_at) >= self.declared.settle
        ]
        self._counted = {file: self._counted[file] for file in settled if file in self._counted}
        return sorted(settled, key=_by_name)

    def is_input(self, name: str) -> bool:
        """Whether a file of this name is input."""
        return not name.startswith((".", "_")) and fnmatch.fnmatch(name, self.declared.pattern)

    def _measure_file(self, file: ListedFile) -> Arrived | None:
        """Count a file's rows; a file that was deleted since it was listed was never input."""
        if file not in self._counted:
            path = self._path(file.name)
            try:
                self._counted[file] = self._validate(path)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise unreadable(path, error) from error
        validated = self._counted[file]
        return Arrived(file=file, rows=validated.rows, aside=validated.aside)

    def _validate(self, path: str) -> ValidatedBatch:
        if self.validator is not None:
            return self.validator.validate(self.filesystem, path)
        rows = count_rows(self.declared, self.filesystem, path, self.schema)
        return ValidatedBatch(rows=rows, aside=())

    def fault(self, file: Json) -> str | None:
        """Why the file of an epoch cannot be read again as it was; `None` if it can."""
        try:
            current = self._folder.find(file["name"])
        except OSError as error:
            raise unreadable(file["name"], error) from error
        if current is None:
            self._folder.require(file.get(MOUNT))
            return f"is gone from {self.declared.path}"
        if (current.size_bytes, current.changed_ns) != (file["size"], file["changed_ns"]):
            return (
                f"in {self.declared.path} has changed since it was "
                f"assigned to an epoch ({file['size']} bytes then, {current.size_bytes} now)"
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

    def _path(self, name: str) -> str:
        return str(PurePosixPath(self.root) / name)


def _by_name(file: ListedFile) -> str:
    return file.name


def _on(mount: str | None) -> Json:
    return {} if mount in (None, SYSTEM_DISK) else {MOUNT: mount}


def _rows_per_byte(recent: Sequence[Json]) -> float | None:
    """What the files of recent epochs had; `None` if they had no files, or only empty ones."""
    files = [file for taken in recent for file in files_read(taken)]
    size, rows = (sum(file[of] for file in files) for of in ("size", "rows"))
    return rows / size if size else None


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
