"""Places that must not overlap: what Holdfast writes lies apart from everything else that a project names.

A table, a home folder or snapshots in the same folder as other data would be read as input, deleted by the
retention, or overwritten. Two places that are only read may overlap.
"""

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.configs.declarations.deployment import Deployment, S3ObjectStore
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.loading import Document, LoadedFile, Loc, Problem

SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
MAY_SHARE_MEMORY = "/dev/shm"  # noqa: S108 - a usual place of checkpoints
_INVERSE = {"contains": "lies in", "lies in": "contains"}
MOUNTS = Path("/proc/self/mountinfo")
ANSWER_SECONDS = 1.0
_hanging: dict[Path, threading.Thread] = {}
"""Who waits for a file system that did not answer, by its mount point: no other path on it is resolved meanwhile."""
_NETWORK = re.compile(
    r"nfs4?|cifs|smb3|smbfs|ncpfs|afs|ceph|ceph-fuse|glusterfs|lustre|gpfs|beegfs|orangefs|pvfs2|ocfs2|gfs2|sshfs"
    r"|davfs2?|s3fs|mount-s3|gcsfuse|goofys|rclone|juicefs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A path that a project uses, where it is declared, and whether Holdfast writes there."""

    what: str
    path: str
    written: bool
    document: Document | None = None
    loc: Loc = ()
    stream: str = ""
    by_name: bool = False
    """The path follows from the name of the stream."""
    of_snapshots: bool = False
    """What lies there has the name of its owner, so two of them may overlap."""
    in_home: bool = False
    """It may lie in the home folder, beside what is there."""
    shared: bool = False
    """Streams may have the same folder here: each replica has a folder of its own in it."""

    @property
    def is_declared(self) -> bool:
        """Whether a file names the place."""
        return self.document is not None and self.loc[0] in self.document.value

    def problems(self, message: str) -> Iterator[Problem]:
        """The problem with this place; none if there is no file that it could be in."""
        if self.document is not None:
            yield self.document.problem_at(self.loc, message, value=self.path)


def find_overlaps(
    root: Path,
    declared: Deployment,
    document: Document | None,
    streams: Iterable[LoadedFile[StreamDeclaration]],
) -> Iterator[Problem]:
    """Every place that lies in, above or at another one; reported in both files, as either may have the mistake.

    `document` is the file that declares the deployment, if there is one.
    """
    root = root.resolve()
    home = Place(
        what="the home folder",
        path=str(resolve_path(root, declared.home)),
        written=True,
        document=document,
        loc=("home",),
    )
    configs = Place(
        what="the folder of the declarations", path=str((root / "configs").resolve()), written=True
    )
    snapshots = _list_snapshots(declared, document)
    places = [
        home,
        *_list_control_store(root, declared, document),
        *_list_copies(declared, document),
        *(place for file in streams for place in _list_places(root, home, snapshots, file)),
    ]
    for number, place in enumerate(places):
        fault = _find_fault(root, place)
        if fault is not None:
            yield from place.problems(fault)
        else:
            yield from _find_overlap(place, [configs, *places[:number]], home)
        if place is home and (fault is not None or _relation(home, configs, home)):
            return  # the usual places are in it


def _find_overlap(place: Place, others: Iterable[Place], home: Place) -> Iterator[Problem]:
    """The first of the other places that this one overlaps, as a problem of each file."""
    for other in others:
        relation = _relation(place, other, home)
        if relation is None:
            continue
        yield from place.problems(f"{relation} {other.what}: choose another path")
        if other.is_declared and other.document is not place.document:
            inverse = _INVERSE.get(relation, relation)
            yield from other.problems(f"{inverse} {place.what}: choose another path")
        return


def resolve_path(root: Path, path: str) -> Path:
    """An absolute path without symbolic links; with them, where the file system does not answer in time.

    Each command and each tick of a sensor resolves the paths of all streams. If the server of a network file system is
    away, even that may block for ever: a stream that reads from there must not hold up the others.
    """
    absolute = Path(os.path.abspath(root / Path(path).expanduser()))  # noqa: PTH100 - touches no disk
    mounts = _list_network_mounts()
    if not mounts:
        return (root / Path(path).expanduser()).resolve()
    place = max(filter(absolute.is_relative_to, mounts), default=absolute)
    hanging = _hanging.get(place)
    if hanging is not None and hanging.is_alive():
        return absolute
    resolved: list[Path] = []
    reader = threading.Thread(target=_resolve, args=(root, path, resolved), daemon=True)
    reader.start()
    reader.join(ANSWER_SECONDS)
    if not resolved:
        _hanging[place] = reader
        return absolute
    _hanging.pop(place, None)
    return resolved[0]


def _resolve(root: Path, path: str, resolved: list[Path]) -> None:
    with suppress(OSError, RuntimeError):  # links that go round
        resolved.append((root / Path(path).expanduser()).resolve())


def _find_fault(root: Path, place: Place) -> str | None:
    if place.path == "/" or _contains(place.path, str(root)):
        named = "the folder of the project" if place.path == str(root) else "a folder above it"
        return f"is {named}, which holds other files, too: name a folder in it"
    shm = _contains(MAY_SHARE_MEMORY, place.path)
    if any(_contains(folder, place.path) for folder in SYSTEM_FOLDERS) and not shm:
        return "is a folder of the operating system: name another"
    return None


def _list_places(
    root: Path,
    home: Place,
    snapshots: Callable[[str], Iterator[Place]],
    file: LoadedFile[StreamDeclaration],
) -> Iterator[Place]:
    stream, document = file.model, file.document
    if stream is None or document is None:
        return

    def place(what: str, path: str, loc: Loc, *, written: bool, shared: bool = False) -> Place:
        return Place(
            what=f"{what} of {stream.name} ({file.file})",
            path=path if "://" in path else str(resolve_path(root, path)),
            written=written,
            document=document,
            loc=loc,
            stream=stream.name,
            by_name=loc == ("name",),
            shared=shared,
        )

    yield from _list_tables(stream, home.path, place)
    if isinstance(stream.source, FilesSource):
        yield place("the source", stream.source.path, ("source", "path"), written=False)
    if stream.code is not None and not _contains(str(resolve_path(root, stream.code)), str(root)):
        yield place("the code", stream.code, ("code",), written=False)
    if stream.resources.folder is not None:
        loc = ("resources", "folder")
        yield place("the replicas", stream.resources.folder, loc, written=True, shared=True)
    yield from snapshots(stream.name)


def _list_control_store(
    root: Path, deployment: Deployment, document: Document | None
) -> Iterator[Place]:
    """The file of SQLite, if one is named; others lie beside it, such as its log."""
    kind, _, file = (deployment.control_store.url or "").partition("?")[0].partition(":///")
    if kind == "sqlite":
        yield Place(
            what="the file of the control store",
            path=str(resolve_path(root, file)),
            written=True,
            document=document,
            loc=("control_store", "url"),
            in_home=True,
        )


def _list_copies(deployment: Deployment, document: Document | None) -> Iterator[Place]:
    """The places of copies at the endpoint that has the tables; Holdfast only reads there."""
    store = deployment.object_store
    usual = store.endpoint_url if isinstance(store, S3ObjectStore) else None
    for name, place in deployment.places.items():
        if place.endpoint_url in (None, usual):
            yield Place(
                what=f"the place {name}",
                path=f"s3://{place.bucket}/{place.prefix}",
                written=False,
                document=document,
                loc=("places", name),
                of_snapshots=True,
            )


def _list_snapshots(
    deployment: Deployment, document: Document | None
) -> Callable[[str], Iterator[Place]]:
    """The place of the snapshots of a stream, by its name; none in the embedded object store."""

    def place(stream: str) -> Iterator[Place]:
        if isinstance(store := deployment.object_store, S3ObjectStore):
            yield Place(
                what=f"the snapshots of {stream}",
                path=f"s3://{store.bucket}/{store.prefix}{stream}",
                written=True,
                document=document,
                loc=("object_store", "prefix"),
                stream=stream,
                by_name=True,
                of_snapshots=True,
            )

    return place


def _list_tables(
    stream: StreamDeclaration, home: str, place: Callable[..., Place]
) -> Iterator[Place]:
    if isinstance(stream.sink, DeltaSink):
        path, usual = stream.sink.path, f"{home}/tables/{stream.name}"
        loc: Loc = ("name",) if path is None else ("sink", "path")
        yield place("the table", path or usual, loc, written=True)
    if isinstance(stream.source, FilesSource) and stream.source.dead_letters is not None:
        path, usual = stream.source.dead_letters.path, f"{home}/tables/{stream.name}_dead_letters"
        loc = ("name",) if path is None else ("source", "dead_letters", "path")
        yield place("the dead letters", path or usual, loc, written=True)


def _relation(place: Place, other: Place, home: Place) -> str | None:
    """How two places overlap; `None` if they do not, or may."""
    if not _overlap(place, other) or _may_overlap(place, other, home):
        return None
    if place.path.rstrip("/") == other.path.rstrip("/"):
        return "is already used by"
    return "contains" if _contains(place.path, other.path) else "lies in"


def _overlap(place: Place, other: Place) -> bool:
    return _contains(place.path, other.path) or _contains(other.path, place.path)


def _may_overlap(place: Place, other: Place, home: Place) -> bool:
    if not place.written and not other.written:
        return True
    if place.shared and other.shared and place.path == other.path:
        return True
    if place.of_snapshots and other.of_snapshots:
        return True
    if other is home and place.in_home:
        return place.path != home.path
    if place.by_name and other.by_name and place.stream == other.stream:
        return place.path == other.path  # one name twice, which is a problem of its own
    usual = [f"{home.path}/replicas"] if place.shared else [f"{home.path}/tables/"]
    return other is home and place.written and any(place.path.startswith(path) for path in usual)


def _contains(path: str, inner: str) -> bool:
    """Whether `inner` is `path` or below it."""
    if ("://" in path) != ("://" in inner):
        return False
    outer_url, inner_url = urlsplit(path), urlsplit(inner)
    if outer_url.netloc != inner_url.netloc:
        return False
    folder = outer_url.path.rstrip("/")
    return inner_url.path.rstrip("/") == folder or inner_url.path.startswith(f"{folder}/")


def _list_network_mounts() -> list[Path]:
    """Where network file systems are mounted, or would be at the first access."""
    mounted = (line.partition(" - ") for line in _read_mounts())
    kinds = ((mount, device.split()[0].removeprefix("fuse.")) for mount, _, device in mounted)
    return [
        folder
        for mount, kind in kinds
        if (kind == "autofs" or _NETWORK.fullmatch(kind))
        and not (folder := Path(_unescape(mount.split()[4]))).is_relative_to("/proc")
    ]


def _read_mounts() -> list[str]:
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def find_network_file_system(path: Path) -> str | None:
    """The kind of network file system that a path is on, such as `nfs4`; `None` if it is on none, or not known.

    Several hosts can mount it, and there the locks of SQLite do not hold.
    """
    resolved, deepest = path.resolve(), (Path("/"), "")
    for line in _read_mounts():
        mount, _, kind = line.partition(" - ")
        folder = Path(_unescape(mount.split()[4]))
        if resolved.is_relative_to(folder) and len(folder.parts) >= len(deepest[0].parts):
            deepest = folder, kind.split()[0].removeprefix("fuse.")
    return deepest[1] if _NETWORK.fullmatch(deepest[1]) else None


def _unescape(folder: str) -> str:
    for octal in ("040", "011", "012", "134"):  # blank, tab, line break; the backslash last
        folder = folder.replace(f"\\{octal}", chr(int(octal, 8)))
    return folder
