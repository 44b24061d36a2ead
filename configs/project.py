"""A project: a folder with `configs/holdfast.yaml`, `configs/streams/*.yaml` and `configs/prices/*.yaml`.

Loading it reads YAML only: no user code, no Spark, no Dagster, so that every command starts fast.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from holdfast.configs.declarations.deployment import Deployment, S3ObjectStore
from holdfast.configs.declarations.prices import PriceList
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration, memory_bytes
from holdfast.configs.loading import (
    Document,
    InvalidConfig,
    Loc,
    Problem,
    suggest_name,
)
from holdfast.configs.places import find_network_file_system, resolve_path
from holdfast.configs.project_files import (
    LAST_GOOD,
    STREAMS,
    ProjectFiles,
    file_problem,
    find_names,
    is_of_streams,
    list_tables,
    load_files,
)
from holdfast.configs.references import (
    NamedFunction,
    ReferenceCheck,
    list_notify_functions,
    list_stream_functions,
)
from holdfast.configs.secret_references import CLEAR_DATABASE, CLEAR_ENDPOINT, holds_secret
from holdfast.ft_policies.errors import PermanentError

PROJECT_VARIABLE = "HOLDFAST_PROJECT"
SHORTEST_RECOVERY_SECONDS = 0.5  # active replication: nothing to do but to notice


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
    """The names of the streams whose files have problems, or are gone although the streams should run."""
    missing: frozenset[str] = frozenset()
    """Those of them that have no file."""
    good_files: tuple[Document, ...] = ()
    """Deployment and price lists of the project, as far as they have no problems."""

    @staticmethod
    def load(root: Path, *, tolerant: bool = False) -> "ProjectConfig":
        """Load all files of the project; `InvalidConfig` lists every problem in them.

        With `tolerant` a problem in the file of a stream leaves out that stream alone; in place of a deployment
        or price list with a problem, its last good copy counts. A project that has lived may lack the folder of
        all streams.
        """
        files, root = load_files(root), root.resolve()
        deployment = files.good_deployment(root) if tolerant or not files.faulty else None
        if deployment is None:
            raise InvalidConfig(tuple(files.problems))
        home = resolve_path(root, deployment.home)
        if STREAMS in files.faulty and not home.is_dir():  # a folder that is no project
            raise InvalidConfig(tuple(files.problems))
        prices = files.good_prices(root)
        streams = {
            stream.name: stream for stream in files.good_streams() if stream.prices in prices
        }
        left_out = {file for file in files.faulty if file.startswith(f"{STREAMS}/")} | {
            file.file for file in files.streams if file.model and file.model.name not in streams
        }
        broken = {name for file in left_out for name in find_names(root / file)} - streams.keys()
        return ProjectConfig(
            root=root,
            home=home,
            deployment=deployment,
            streams=streams,
            prices=prices,
            problems=tuple(files.problems),
            broken=frozenset(broken),
            good_files=files.good_documents(),
        )

    def with_last_declarations(
        self, last: Mapping[str, object], *, wanted: Collection[str]
    ) -> "ProjectConfig":
        """The project with what a broken stream was last started with, for each that was.

        A stream that is wanted to run and has no file is broken, too.
        """
        missing = frozenset(wanted) - self.streams.keys() - self.broken
        broken, declared = self.broken | missing, dict(self.streams)
        for name in broken & last.keys():
            with suppress(ValidationError):  # written by a version that allowed more
                declared[name] = StreamDeclaration.model_validate(last[name])
        problems = (*self.problems, *(_missing_file(name) for name in sorted(missing)))
        return replace(self, streams=declared, broken=broken, missing=missing, problems=problems)

    @staticmethod
    def find_root() -> Path:
        """The folder named by HOLDFAST_PROJECT, or the nearest one upwards that declares streams."""
        named = os.environ.get(PROJECT_VARIABLE)
        if named and (Path(named) / LAST_GOOD.parts[0]).is_dir():
            return Path(named).resolve()  # it has lived: its declarations may be away for a moment
        candidates = [Path(named)] if named else [Path.cwd(), *Path.cwd().parents]
        for folder in candidates:
            if (folder / STREAMS).is_dir():
                return folder.resolve()
        raise PermanentError(
            f"no project found: no folder configs/streams in {named or f'{Path.cwd()} or above it'}",
            hint=f"change to the project's folder, or set {PROJECT_VARIABLE} to it",
        )

    @property
    def has_broken_deployment(self) -> bool:
        """Whether `holdfast.yaml` or a price list has problems, so that a last good version counts."""
        return not all(is_of_streams(problem.file) for problem in self.problems)

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
        return path if "://" in path else str(resolve_path(self.root, path))


def _missing_file(stream: str) -> Problem:
    message = (
        f"{stream} should run and has no file: its last declaration counts. "
        f"Restore the file, or run `holdfast stop {stream}`"
    )
    return file_problem(f"{STREAMS}/{stream}.yaml", message)


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
    problems = [
        *files.problems,
        *missing,
        *_find_store_on_network(root, files),
        *_find_clear_urls(files),
        *_find_tables_in_files(root, files),
    ]
    return sorted(problems, key=lambda problem: (problem.file, problem.line))


def _find_clear_urls(files: ProjectFiles) -> Iterator[Problem]:
    """Passwords in the URLs of the deployment; a project that an older version has run with one is still recovered."""
    for file in files.deployments:
        if file.model is None or file.document is None:
            continue
        if holds_secret(file.model.control_store.url or ""):
            yield file.document.problem_at(("control_store", "url"), CLEAR_DATABASE)
        endpoints: dict[Loc, str | None] = {
            ("places", name): place.endpoint_url for name, place in file.model.places.items()
        }
        if isinstance(file.model.object_store, S3ObjectStore):
            endpoints[("object_store",)] = file.model.object_store.endpoint_url
        for loc, url in endpoints.items():
            if holds_secret(url or ""):
                yield file.document.problem_at((*loc, "endpoint_url"), CLEAR_ENDPOINT)


def _find_tables_in_files(root: Path, files: ProjectFiles) -> Iterator[Problem]:
    """Tables, which are folders, at or below a file."""
    for file in files.streams:
        for loc, path in list_tables(file.model) if file.model else ():
            if file.document is None or path is None or "://" in path:
                continue
            table = resolve_path(root, path)
            present = next(place for place in (table, *table.parents) if place.exists())
            if not present.is_dir():
                what = "is a file" if present == table else f"lies below the file {present}"
                yield file.document.problem_at(loc, f"{what}: name a folder", value=path)


def _find_store_on_network(root: Path, files: ProjectFiles) -> Iterator[Problem]:
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
        file_problem("configs/holdfast.yaml", f"home {message}")
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
