"""Places that must not overlap: what Holdfast writes lies apart from everything else that a project names.

A table, a home folder or snapshots in the same folder as other data would be read as input, deleted by the
retention, or overwritten. Two places that are only read may overlap.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.configs.deployment import Deployment, S3ObjectStore
from holdfast.configs.loading import Document, LoadedFile, Loc, Problem
from holdfast.configs.sinks import DeltaSink
from holdfast.configs.sources import FilesSource
from holdfast.configs.stream import StreamDeclaration

SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
MAY_SHARE_MEMORY = "/dev/shm"  # noqa: S108 - a usual place of checkpoints
MOUNTS = Path("/proc/self/mountinfo")
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
    shared: bool = False
    """Streams may have the same folder here: each replica has a folder of its own in it."""

    def problem(self, message: str) -> Problem | None:
        if self.document is None:
            return None
        return self.document.problem_at(self.loc, message, value=self.path)


def find_overlaps(
    root: Path,
    deployments: Iterable[LoadedFile[Deployment]],
    streams: Iterable[LoadedFile[StreamDeclaration]],
) -> Iterator[Problem]:
    """Every place that lies in, above or at another one, reported at the later of the two."""
    root = root.resolve()
    deployment = next((file for file in deployments if file.model), None)
    declared = Deployment() if deployment is None or deployment.model is None else deployment.model
    document = None if deployment is None else deployment.document
    home = Place(
        what="the home folder",
        path=str(resolve_path(root, declared.home)),
        written=True,
        document=document,
        loc=("home",),
    )
    places = [
        home,
        *(place for file in streams for place in _list_places(root, home, declared, file)),
    ]
    for number, place in enumerate(places):
        message = _find_fault(root, place) or next(
            (
                f"{relation} {other.what}: choose another path"
                for other in _others(root, places[:number])
                if (relation := _relation(place, other, home)) is not None
            ),
            None,
        )
        problem = message and place.problem(message)
        if problem:
            yield problem
            if place is home:
                return  # the usual places are in it


def resolve_path(root: Path, path: str) -> Path:
    """An absolute path without symbolic links."""
    return (root / Path(path).expanduser()).resolve()


def _others(root: Path, before: list[Place]) -> list[Place]:
    configs = Place(
        what="the folder of the declarations", path=str((root / "configs").resolve()), written=True
    )
    return [configs, *before]


def _find_fault(root: Path, place: Place) -> str | None:
    if place.path == "/" or _contains(place.path, str(root)):
        named = "the folder of the project" if place.path == str(root) else "a folder above it"
        return f"is {named}, which holds other files, too: name a folder in it"
    shm = _contains(MAY_SHARE_MEMORY, place.path)
    if any(_contains(folder, place.path) for folder in SYSTEM_FOLDERS) and not shm:
        return "is a folder of the operating system: name another"
    return None


def _list_places(
    root: Path, home: Place, deployment: Deployment, file: LoadedFile[StreamDeclaration]
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
    if isinstance(deployment.object_store, S3ObjectStore):
        store = deployment.object_store
        path = f"s3://{store.bucket}/{store.prefix}{stream.name}"
        yield place("the snapshots", path, ("name",), written=True)


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
    if place.loc == other.loc == ("name",) and place.stream == other.stream:
        return place.path == other.path  # one name twice, which is a problem of its own
    usual = [f"{home.path}/replicas"] if place.shared else [f"{home.path}/tables/"]
    return other is home and place.written and any(place.path.startswith(path) for path in usual)


def _contains(path: str, inner: str) -> bool:
    """Whether `inner` is `path` or below it."""
    if ("://" in path) != ("://" in inner):
        return False
    one, two = urlsplit(path), urlsplit(inner)
    if one.netloc != two.netloc:
        return False
    folder = one.path.rstrip("/")
    return two.path.rstrip("/") == folder or two.path.startswith(f"{folder}/")


def find_network_file_system(path: Path) -> str | None:
    """The kind of network file system that a path is on, such as `nfs4`; `None` if it is on none, or not known.

    Several hosts can mount it, and there the locks of SQLite do not hold.
    """
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    resolved, found = path.resolve(), (Path("/"), "")
    for line in mounts:
        mount, _, kind = line.partition(" - ")
        folder = Path(_unescape(mount.split()[4]))
        if resolved.is_relative_to(folder) and len(folder.parts) >= len(found[0].parts):
            found = folder, kind.split()[0].removeprefix("fuse.")
    return found[1] if _NETWORK.fullmatch(found[1]) else None


def _unescape(folder: str) -> str:
    for octal in ("040", "011", "012", "134"):  # blank, tab, line break; the backslash last
        folder = folder.replace(f"\\{octal}", chr(int(octal, 8)))
    return folder
