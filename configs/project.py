"""A project: a folder with `configs/holdfast.yaml`, `configs/streams/*.yaml` and `configs/prices/*.yaml`.

Loading it reads YAML only: no user code, no Spark, no Dagster, so that every command starts fast.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from holdfast.configs.deployment import Deployment, EmbeddedObjectStore
from holdfast.configs.loading import (
    Document,
    InvalidConfig,
    LoadedFile,
    Loc,
    Problem,
    load_file,
    read_start,
    suggest_name,
)
from holdfast.configs.places import find_network_file_system, find_overlaps, resolve_path
from holdfast.configs.prices import PriceList
from holdfast.configs.references import (
    NamedFunction,
    ReferenceCheck,
    list_notify_functions,
    list_stream_functions,
)
from holdfast.configs.secret_references import CLEAR_TEXT, find_clear_params, find_clear_settings
from holdfast.configs.sinks import DeltaSink
from holdfast.configs.sources import FilesSource
from holdfast.configs.stream import StreamDeclaration, memory_bytes
from holdfast.ft_policies.errors import PermanentError

PROJECT_VARIABLE = "HOLDFAST_PROJECT"
SHORTEST_RECOVERY_SECONDS = 0.5  # active replication: nothing to do but to notice
STREAM_FILES = "configs/streams/"
_NAME = re.compile(r"^name:\s*['\"]?([a-z][a-z0-9_]*)", re.MULTILINE)
_EXTENSIONS = (".yaml", ".yml")
_BUILT_IN_PRICE_LISTS = Path(__file__).parent / "price_lists"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """The checked declarations of a project, and the paths that follow from them."""

    root: Path
    home: Path
    deployment: Deployment
    streams: Mapping[str, StreamDeclaration]
    prices: Mapping[str, PriceList]
    problems: tuple[Problem, ...] = ()
    """The problems in the files of streams; those streams are not in `streams`."""
    broken: frozenset[str] = frozenset()
    """The names of the streams whose files have problems."""

    @staticmethod
    def load(root: Path, *, tolerant: bool = False) -> "ProjectConfig":
        """Load all files of the project; `InvalidConfig` lists every problem in them.

        With `tolerant` a problem in the file of a stream leaves out that stream alone.
        """
        files = load_files(root)
        faulty = {problem.file for problem in files.problems}
        if not (tolerant and all(file.startswith(STREAM_FILES) for file in faulty)) and faulty:
            raise InvalidConfig(tuple(files.problems))
        valid = [file.model for file in files.streams if file.file not in faulty and file.model]
        streams = {stream.name: stream for stream in valid}
        broken = {_find_name(root / file) for file in faulty} - streams.keys()
        root, deployment = root.resolve(), files.deployment
        return ProjectConfig(
            root=root,
            home=(root / Path(deployment.home).expanduser()).resolve(),
            deployment=deployment,
            streams=streams,
            prices=files.prices,
            problems=tuple(files.problems),
            broken=frozenset(broken),
        )

    def with_last_declarations(self, last: Mapping[str, object]) -> "ProjectConfig":
        """The project with what a broken stream was last started with, for each that was."""
        declared = dict(self.streams)
        for name in self.broken & last.keys():
            with suppress(ValidationError):  # written by a version that allowed more
                declared[name] = StreamDeclaration.model_validate(last[name])
        return replace(self, streams=declared)

    @staticmethod
    def find_root() -> Path:
        """The folder named by HOLDFAST_PROJECT, or the nearest one upwards that declares streams."""
        named = os.environ.get(PROJECT_VARIABLE)
        candidates = [Path(named)] if named else [Path.cwd(), *Path.cwd().parents]
        for folder in candidates:
            if (folder / "configs" / "streams").is_dir():
                return folder.resolve()
        raise PermanentError(
            f"no project found: no folder configs/streams in {named or f'{Path.cwd()} or above it'}",
            hint=f"change to the project's folder, or set {PROJECT_VARIABLE} to it",
        )

    @property
    def control_url(self) -> str:
        """The SQLAlchemy URL of the control store."""
        return self.deployment.control_store.url or f"sqlite:///{self.home / 'control.db'}"

    def stream(self, name: str) -> StreamDeclaration:
        """The declaration of a stream; `PermanentError` if there is none of this name."""
        if name not in self.streams:
            raise PermanentError(
                f"no stream is called {name}; declared are {', '.join(sorted(self.streams)) or 'none'}",
                hint=suggest_name(name, list(self.streams)),
            )
        return self.streams[name]

    def table_path(self, stream: StreamDeclaration | str) -> str:
        """The output table of a stream: an absolute path, or s3://; `PermanentError` without a Delta sink."""
        declared = self.stream(stream) if isinstance(stream, str) else stream
        if not isinstance(declared.sink, DeltaSink):
            raise PermanentError(
                f"{declared.name} writes no table: its sink is {declared.sink.kind}",
                hint="declare a sink of kind delta",
            )
        if declared.sink.path is None:
            return str(self.home / "tables" / declared.name)
        return self.resolve_path(declared.sink.path)

    def dead_letters_path(self, stream: StreamDeclaration | str) -> str | None:
        """The table of a stream's rejected records; `None` if it declares no dead letters."""
        declared = self.stream(stream) if isinstance(stream, str) else stream
        if not isinstance(declared.source, FilesSource) or declared.source.dead_letters is None:
            return None
        path = declared.source.dead_letters.path
        default = str(self.home / "tables" / f"{declared.name}_dead_letters")
        return default if path is None else self.resolve_path(path)

    def replicas_folder(self, stream: StreamDeclaration) -> Path:
        """The folder of a stream's replicas: `resources.folder`, or one in the home folder."""
        declared = stream.resources.folder
        return self.home / "replicas" if declared is None else Path(self.resolve_path(declared))

    def resolve_paths(self, stream: StreamDeclaration) -> StreamDeclaration:
        """The declaration with paths that mean the same from any folder."""
        if not isinstance(stream.source, FilesSource):
            return stream
        source = stream.source.model_copy(update={"path": self.resolve_path(stream.source.path)})
        return stream.model_copy(update={"source": source})

    def resolve_path(self, path: str) -> str:
        """An absolute path: URLs stay as they are, others are relative to the project's folder."""
        return path if "://" in path else str((self.root / Path(path).expanduser()).resolve())


def check(root: Path, monotonic: Callable[[], float] = lambda: 0.0) -> list[Problem]:
    """All problems in the files of a project, functions that cannot be imported among them.

    `monotonic` tells the seconds; without it the imports are limited in time singly, and not together.
    """
    files, references = load_files(root), ReferenceCheck(root.resolve(), monotonic)
    named: list[tuple[Document | None, list[NamedFunction], str | None]] = [
        *(
            (file.document, list_notify_functions(file.model), None)
            for file in files.deployments
            if file.model
        ),
        *(
            (file.document, list_stream_functions(file.model), file.model.code)
            for file in files.streams
            if file.model
        ),
    ]
    missing = [
        problem
        for document, functions, code in named
        if document is not None
        for problem in references.check(document, functions, code=code)
    ]
    found = [*files.problems, *missing, *_find_store_on_network(root, files)]
    return sorted(found, key=lambda problem: (problem.file, problem.line))


def _find_store_on_network(root: Path, files: "ProjectFiles") -> Iterator[Problem]:
    """SQLite in a folder that other hosts can mount, too."""
    url, home = files.deployment.control_store.url, resolve_path(root, files.deployment.home)
    kind, _, path = (url or f"sqlite:///{home}").partition(":///")
    network = find_network_file_system(Path(path).expanduser()) if kind == "sqlite" else None
    if network is None:
        return
    message = (
        f"is on a network file system ({network}), where SQLite's locks do not hold: name a folder of this host, "
        "or PostgreSQL in control_store.url"
    )
    loc, value = (("control_store", "url"), url) if url else (("home",), str(home))
    document = next((file.document for file in files.deployments if file.model), None)
    yield (
        _file_problem("configs/holdfast.yaml", f"home {message}")
        if document is None
        else document.problem_at(loc, message, value=value)
    )


def list_warnings(root: Path) -> list[Problem]:
    """What is allowed but looks like a mistake on this machine; nothing is refused because of it."""
    files, root = load_files(root), root.resolve()
    return [
        problem
        for file in files.streams
        if file.model and file.document
        for problem in _find_doubts(root, file.document, file.model)
    ]


def _find_doubts(root: Path, document: Document, stream: StreamDeclaration) -> Iterator[Problem]:
    source, memory = stream.source, stream.resources.driver_memory
    seconds = stream.objective.recovery_time
    if seconds < SHORTEST_RECOVERY_SECONDS:
        message = (
            f"is shorter than a recovery in any tier: from {SHORTEST_RECOVERY_SECONDS:g} s "
            "active_replication may meet it"
        )
        yield document.problem_at(("objective", "recovery_time"), message, value=seconds)
    path = source.path if isinstance(source, FilesSource) else "s3://"
    if "://" not in path and not resolve_path(root, path).is_dir():
        message = "folder not found: the stream waits for it"
        yield document.problem_at(("source", "path"), message, value=path)
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory_bytes(memory) > present:
        message = f"is more than the memory of this machine ({present / 1024**3:.1f} GB)"
        yield document.problem_at(("resources", "driver_memory"), message, value=memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """The loaded files of a project, and all problems in them."""

    deployment: Deployment
    deployments: list[LoadedFile[Deployment]]
    streams: list[LoadedFile[StreamDeclaration]]
    prices: Mapping[str, PriceList]
    problems: list[Problem]


def load_files(root: Path) -> ProjectFiles:
    """Load every file; whatever a file contains, the result is a list of problems and no exception."""
    folder = root / "configs"
    deployments = [
        load_file(path, Deployment, file=_display_name(path, root))
        for extension in _EXTENSIONS
        if os.path.lexists(path := folder / f"holdfast{extension}")
    ]
    streams = [
        load_file(path, StreamDeclaration, file=_display_name(path, root))
        for path in _list_yaml_files(folder / "streams")
    ]
    # A price list of the project replaces a built-in one of the same name.
    prices = {
        path.stem: load_file(path, PriceList, file=_display_name(path, root))
        for path in [
            *_list_yaml_files(_BUILT_IN_PRICE_LISTS),
            *_list_yaml_files(folder / "prices"),
        ]
    }
    deployment = next((file.model for file in deployments if file.model), Deployment())
    problems = [
        *(problem for file in deployments for problem in file.problems),
        *(problem for file in streams for problem in file.problems),
        *(problem for file in prices.values() for problem in file.problems),
        *_find_misplaced_files(root),
        *_find_clashes(streams),
        *find_overlaps(root, deployments, streams),
        *_find_unknown_price_lists(streams, prices.keys()),
        *_find_unreachable_tables(streams, deployment),
        *_find_clear_secrets(streams),
    ]
    return ProjectFiles(
        deployment=deployment,
        deployments=deployments,
        streams=streams,
        prices={name: file.model for name, file in prices.items() if file.model},
        problems=sorted(problems, key=lambda problem: (problem.file, problem.line, problem.column)),
    )


def _find_name(file: Path) -> str:
    """The name of a stream whose file has problems, maybe such that it is no YAML."""
    try:
        match = _NAME.search(read_start(file).decode(errors="replace"))
    except OSError:
        match = None
    return file.stem if match is None else match[1]


def _display_name(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _list_yaml_files(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in files if path.suffix in _EXTENSIONS and path.name[0] != ".")


def _find_misplaced_files(root: Path) -> Iterator[Problem]:
    folder = root / "configs" / "streams"
    if not folder.is_dir():
        yield _file_problem("configs/streams", "folder not found: it must hold the declarations")
        return
    if all(os.path.lexists(folder.parent / f"holdfast{extension}") for extension in _EXTENSIONS):
        yield _file_problem("configs/holdfast.yml", "is ignored: holdfast.yaml is beside it")
    for path in sorted(folder.iterdir()):
        if path.name[0] != "." and path.suffix not in (*_EXTENSIONS, ".md"):
            needed = (
                "move what it holds into configs/streams"
                if path.is_dir()
                else "its name must end in .yaml or .yml"
            )
            yield _file_problem(_display_name(path, root), f"is ignored: {needed}")


def _file_problem(file: str, message: str) -> Problem:
    return Problem(file=file, line=1, column=1, field="", value=None, message=message)


def _declared_tables(stream: StreamDeclaration) -> Iterator[tuple[Loc, str | None]]:
    if isinstance(stream.sink, DeltaSink):
        yield ("sink", "path"), stream.sink.path
    if isinstance(stream.source, FilesSource) and stream.source.dead_letters is not None:
        yield ("source", "dead_letters", "path"), stream.source.dead_letters.path


def _find_clashes(streams: Iterable[LoadedFile[StreamDeclaration]]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for file in streams:
        if file.model is None or file.document is None:
            continue
        name = file.model.name
        if name in first:
            message = f"is already used in {first[name]}: choose another"
            yield file.document.problem_at(("name",), message, value=name)
        first.setdefault(name, file.file)


def _find_unknown_price_lists(
    streams: Iterable[LoadedFile[StreamDeclaration]], names: Collection[str]
) -> Iterator[Problem]:
    for file in streams:
        if file.model and file.document and file.model.prices not in names:
            hint = suggest_name(file.model.prices, list(names))
            message = f"is not a price list of configs/prices: {hint}"
            yield file.document.problem_at(("prices",), message, value=file.model.prices)


def _find_unreachable_tables(
    streams: Iterable[LoadedFile[StreamDeclaration]], deployment: Deployment
) -> Iterator[Problem]:
    """A table needs conditional writes, which the embedded object store does not offer."""
    if not isinstance(deployment.object_store, EmbeddedObjectStore):
        return
    message = (
        "is in S3, but the embedded object store stores snapshots only: name a local folder, "
        "or declare an S3 endpoint in configs/holdfast.yaml (object_store: {kind: s3, …})"
    )
    for file in streams:
        for loc, path in _declared_tables(file.model) if file.model else ():
            if file.document and path is not None and path.startswith("s3://"):
                yield file.document.problem_at(loc, message, value=path)


def _find_clear_secrets(streams: Iterable[LoadedFile[StreamDeclaration]]) -> Iterator[Problem]:
    """Only in files: a stream that was started with one by an older version must remain recoverable."""
    for file in streams:
        if file.model is None or file.document is None:
            continue
        for key, message in find_clear_settings(file.model.resources.spark_conf):
            yield file.document.problem_at(("resources", "spark_conf", key), message)
        for loc in find_clear_params(file.model.params):
            yield file.document.problem_at(("params", *loc), CLEAR_TEXT)
