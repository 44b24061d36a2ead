"""A project: a folder with `configs/holdfast.yaml`, `configs/streams/*.yaml` and `configs/prices/*.yaml`.

Loading it reads YAML only: no user code, no Spark, no Dagster, so that every command starts fast.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from configs.deployment import Deployment, EmbeddedObjectStore
from configs.loading import Document, InvalidConfig, Loc, Problem, Read, read, suggestion
from configs.prices import PriceList
from configs.references import Named, check_references, named_by_deployment, named_by_stream
from configs.sinks import DeltaSink
from configs.sources import FilesSource
from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError

PROJECT_VARIABLE = "HOLDFAST_PROJECT"
_EXTENSIONS = (".yaml", ".yml")
_PRICES_OF_HOLDFAST = Path(__file__).parent / "price_lists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """All files of a project, read, and all that is wrong with them."""

    deployment: Deployment
    deployments: list[Read[Deployment]]
    streams: list[Read[StreamDeclaration]]
    prices: Mapping[str, PriceList]
    problems: list[Problem]


def gather(root: Path) -> Gathered:
    """Read every file; nothing in them makes this raise."""
    folder = root / "configs"
    deployments = [
        read(path, Deployment, file=_name(path, root))
        for extension in _EXTENSIONS
        if (path := folder / f"holdfast{extension}").is_file()
    ]
    streams = [
        read(path, StreamDeclaration, file=_name(path, root)) for path in _yaml(folder / "streams")
    ]
    prices = {
        path.stem: read(path, PriceList, file=_name(path, root))
        for path in [*_yaml(_PRICES_OF_HOLDFAST), *_yaml(folder / "prices")]
    }
    deployment = next((one.model for one in deployments if one.model), Deployment())
    problems = [
        *(problem for one in deployments for problem in one.problems),
        *(problem for one in streams for problem in one.problems),
        *(problem for one in prices.values() for problem in one.problems),
        *_misplaced(root),
        *_clashes(streams, ("name",), lambda stream: stream.name),
        *_clashes(streams, ("sink", "path"), _table),
        *_unpriced(streams, prices.keys()),
        *_tables_out_of_reach(streams, deployment),
    ]
    return Gathered(
        deployment=deployment,
        deployments=deployments,
        streams=streams,
        prices={name: one.model for name, one in prices.items() if one.model},
        problems=sorted(problems, key=lambda found: (found.file, found.line, found.column)),
    )


def _name(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _yaml(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in files if path.suffix in _EXTENSIONS and path.name[0] != ".")


def _misplaced(root: Path) -> Iterator[Problem]:
    folder = root / "configs" / "streams"
    if not folder.is_dir():
        yield _whole_file("configs/streams", "there is no such folder: streams are declared in it")
        return
    for path in sorted(folder.iterdir()):
        visible = path.is_file() and path.name[0] != "."
        if visible and path.suffix not in (*_EXTENSIONS, ".md"):
            yield _whole_file(_name(path, root), "is not read: its name must end in .yaml or .yml")


def _whole_file(file: str, message: str) -> Problem:
    return Problem(file=file, line=1, column=1, field="", value=None, message=message)


def _table(stream: StreamDeclaration) -> str | None:
    return stream.sink.path if isinstance(stream.sink, DeltaSink) else None


def _clashes(
    streams: Iterable[Read[StreamDeclaration]],
    loc: Loc,
    key: Callable[[StreamDeclaration], str | None],
) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for one in streams:
        value = key(one.model) if one.model else None
        if value is None or one.document is None:
            continue
        if value in first:
            yield one.document.problem(loc, f"is already taken by {first[value]}", value=value)
        first.setdefault(value, one.file)


def _unpriced(
    streams: Iterable[Read[StreamDeclaration]], known: Collection[str]
) -> Iterator[Problem]:
    for one in streams:
        if one.model and one.document and one.model.prices not in known:
            hint = suggestion(one.model.prices, list(known))
            message = f"there is no such file in configs/prices: {hint}"
            yield one.document.problem(("prices",), message, value=one.model.prices)


def _tables_out_of_reach(
    streams: Iterable[Read[StreamDeclaration]], deployment: Deployment
) -> Iterator[Problem]:
    """A table needs conditional writes, which the embedded object store does not offer."""
    if not isinstance(deployment.object_store, EmbeddedObjectStore):
        return
    for one in streams:
        path = _table(one.model) if one.model else None
        if one.document and path is not None and path.startswith("s3://"):
            message = (
                "the embedded object store keeps snapshots only: name a local folder, "
                "or an S3 endpoint in configs/holdfast.yaml (object_store: {kind: s3, …})"
            )
            yield one.document.problem(("sink", "path"), message, value=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Everything that people declared, checked."""

    root: Path
    home: Path
    deployment: Deployment
    streams: Mapping[str, StreamDeclaration]
    prices: Mapping[str, PriceList]

    @staticmethod
    def load(root: Path) -> "Project":
        """Read all files of the project; any mistake in them raises `InvalidConfig`."""
        gathered = gather(root)
        if gathered.problems:
            raise InvalidConfig(tuple(gathered.problems))
        return _project_of(root.resolve(), gathered)

    @staticmethod
    def find_root() -> Path:
        """The folder named by HOLDFAST_PROJECT, or the nearest one upwards that declares streams."""
        named = os.environ.get(PROJECT_VARIABLE)
        candidates = [Path(named)] if named else [Path.cwd(), *Path.cwd().parents]
        for folder in candidates:
            if (folder / "configs" / "streams").is_dir():
                return folder.resolve()
        raise PermanentError(
            f"no folder configs/streams in {named or f'{Path.cwd()} or above it'}",
            hint=f"go to the project's folder, or set {PROJECT_VARIABLE} to it",
        )

    @property
    def control_url(self) -> str:
        """Where the control store is, as SQLAlchemy writes it."""
        return self.deployment.control_store.url or f"sqlite:///{self.home / 'control.db'}"

    def stream(self, name: str) -> StreamDeclaration:
        """The declaration of one stream."""
        if name not in self.streams:
            raise PermanentError(
                f"no stream is called {name}; declared are {', '.join(sorted(self.streams)) or 'none'}",
                hint=suggestion(name, list(self.streams)),
            )
        return self.streams[name]

    def table_path(self, stream: StreamDeclaration | str) -> str:
        """Where the output table of a stream is: an absolute path, or s3://."""
        declared = self.stream(stream) if isinstance(stream, str) else stream
        if not isinstance(declared.sink, DeltaSink):
            raise PermanentError(
                f"{declared.name} writes no table: its sink is {declared.sink.kind}",
                hint="only a delta sink has a table",
            )
        if declared.sink.path is None:
            return str(self.home / "tables" / declared.name)
        return self.locate(declared.sink.path)

    def dead_letters_path(self, stream: StreamDeclaration | str) -> str | None:
        """Where the records are that a stream has set aside; `None` if it sets none aside."""
        declared = self.stream(stream) if isinstance(stream, str) else stream
        if not isinstance(declared.source, FilesSource) or declared.source.dead_letters is None:
            return None
        path = declared.source.dead_letters.path
        own = str(self.home / "tables" / f"{declared.name}_dead_letters")
        return own if path is None else self.locate(path)

    def locate(self, written: str) -> str:
        """A path as a declaration writes it: URLs as they are, others from the project's folder."""
        return (
            written if "://" in written else str((self.root / Path(written).expanduser()).resolve())
        )


def check(root: Path) -> list[Problem]:
    """All mistakes in the files of a project, and functions that they name and nobody wrote."""
    gathered = gather(root)
    named: list[tuple[Document | None, list[Named], str | None]] = [
        *(
            (one.document, named_by_deployment(one.model), None)
            for one in gathered.deployments
            if one.model
        ),
        *(
            (one.document, named_by_stream(one.model), one.model.code)
            for one in gathered.streams
            if one.model
        ),
    ]
    missing = [
        problem
        for document, functions, code in named
        if document is not None
        for problem in check_references(root.resolve(), document, functions, code=code)
    ]
    return sorted(gathered.problems + missing, key=lambda found: (found.file, found.line))


def _project_of(root: Path, gathered: Gathered) -> Project:
    deployment = gathered.deployment
    return Project(
        root=root,
        home=(root / Path(deployment.home).expanduser()).resolve(),
        deployment=deployment,
        streams={read.model.name: read.model for read in gathered.streams if read.model},
        prices=gathered.prices,
    )
