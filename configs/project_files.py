"""The files of a project, and what is wrong with each of them or with two of them together.

A mistake in `configs/holdfast.yaml` or in a price list must not end the recoveries of all streams: their newest versions
without problems stand in for them. These copies are at a place of their own below the project, because the file that
declares the home folder may be the one with the mistake. A stream's last declaration is in the control store.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast.configs.declarations.deployment import Deployment, EmbeddedObjectStore
from holdfast.configs.declarations.prices import PriceList
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.loading import (
    Document,
    LoadedFile,
    Loc,
    Problem,
    load_file,
    read_start,
    suggest_name,
)
from holdfast.configs.places import find_overlaps
from holdfast.configs.secret_references import CLEAR_TEXT, find_clear_params, find_clear_settings
from holdfast.configs.units import Section

STREAMS = "configs/streams"
PRICE_FILES = "configs/prices"
LAST_GOOD = Path(".holdfast") / "last_good"
_NAME = re.compile(r"^name:\s*['\"]?([a-z][a-z0-9_]*)", re.MULTILINE)
_EXTENSIONS = (".yaml", ".yml")
_BUILT_IN_PRICE_LISTS = Path(__file__).parent / "price_lists"
T = TypeVar("T", bound=Section)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """The loaded files of a project, and all problems in them."""

    deployment: Deployment
    deployments: list[LoadedFile[Deployment]]
    streams: list[LoadedFile[StreamDeclaration]]
    prices: Mapping[str, LoadedFile[PriceList]]
    problems: list[Problem]

    @property
    def faulty(self) -> set[str]:
        return {problem.file for problem in self.problems}

    @property
    def _shared(self) -> "list[LoadedFile[Deployment] | LoadedFile[PriceList]]":
        return [*self.deployments, *self.prices.values()]

    def good_deployment(self, root: Path) -> Deployment | None:
        """The deployment, or its last good copy; `None` if there is a mistake that nothing stands in for."""
        replaceable = {file.file for file in self._shared}
        if not all(map(is_of_streams, self.faulty - replaceable)):
            return None
        if STREAMS in self.faulty and not self.deployments:  # perhaps all of `configs` is away
            names = (f"configs/holdfast{extension}" for extension in _EXTENSIONS)
            copies = (_load_copy(root, name, Deployment) for name in names)
            return next(filter(None, copies), self.deployment)
        for file in self.deployments[:1]:  # another one beside it is ignored
            if file.file in self.faulty:
                return _load_copy(root, file.file, Deployment)
        return self.deployment

    def good_prices(self, root: Path) -> dict[str, PriceList]:
        """The price lists, and while there are problems the last good copies of those that are wrong or gone."""
        copies = _list_yaml_files(copy_of(root, PRICE_FILES)) if self.problems else []
        kept = {
            copy.stem: _load_copy(root, f"{PRICE_FILES}/{copy.name}", PriceList) for copy in copies
        }
        valid = {n: file.model for n, file in self.prices.items() if file.file not in self.faulty}
        return {name: prices for name, prices in (kept | valid).items() if prices is not None}

    def good_streams(self) -> list[StreamDeclaration]:
        """The declarations of streams without problems."""
        return [file.model for file in self.streams if file.model and file.file not in self.faulty]

    def good_documents(self) -> tuple[Document, ...]:
        """The files of the project that declare the deployment and prices, if they have no problems."""
        return tuple(
            file.document
            for file in self._shared
            if file.document and file.file not in self.faulty and not Path(file.file).is_absolute()
        )


def load_files(root: Path, *, added: LoadedFile[StreamDeclaration] | None = None) -> ProjectFiles:
    """Load every file; whatever a file contains, the result is a list of problems and no exception.

    A declaration that is not written yet may be `added`, to be checked with the others.
    """
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
    streams += [] if added is None else [added]
    # A price list of the project replaces a built-in one of the same name.
    prices = {
        path.stem: load_file(path, PriceList, file=_display_name(path, root))
        for path in [
            *_list_yaml_files(_BUILT_IN_PRICE_LISTS),
            *_list_yaml_files(folder / "prices"),
        ]
    }
    deployment, document = _find_deployment(root, deployments)
    problems = [
        *(problem for file in deployments for problem in file.problems),
        *(problem for file in streams for problem in file.problems),
        *(problem for file in prices.values() for problem in file.problems),
        *_find_misplaced_files(root),
        *_find_clashes(streams),
        *find_overlaps(root, deployment, document, streams),
        *_find_unknown_price_lists(streams, prices.keys()),
        *_find_unreachable_tables(streams, deployment, document),
        *_find_clear_secrets(streams),
    ]
    return ProjectFiles(
        deployment=deployment,
        deployments=deployments,
        streams=streams,
        prices=prices,
        problems=sorted(problems, key=lambda problem: (problem.file, problem.line, problem.column)),
    )


def is_of_streams(file: str) -> bool:
    """Whether a problem in this file concerns streams alone: the file of one, or the folder of all."""
    return file == STREAMS or file.startswith(f"{STREAMS}/")


def find_names(file: Path) -> set[str]:
    """The streams that a file with problems may declare; it may be no YAML, or the mistake may be in the name."""
    try:
        match = _NAME.search(read_start(file).decode(errors="replace"))
    except OSError:
        match = None
    return {file.stem} if match is None else {file.stem, match[1]}


def copy_of(root: Path, file: str) -> Path:
    """Where the last good copy of a file is, by the file's name in messages."""
    return root / LAST_GOOD / file


def _load_copy(root: Path, file: str, model: type[T]) -> T | None:
    """What the last good copy of a file declares; `None` if there is none, or if this version cannot read it."""
    copy = copy_of(root, file)
    return load_file(copy, model, file=str(copy)).model if copy.is_file() else None


def _find_deployment(
    root: Path, files: list[LoadedFile[Deployment]]
) -> tuple[Deployment, Document | None]:
    """The deployment by which the other files are checked, and the file that declares it."""
    for file in files:
        if file.model is not None:
            return file.model, file.document
    copies = (_load_copy(root, file.file, Deployment) for file in files)
    return next(filter(None, copies), Deployment()), None


def _display_name(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _list_yaml_files(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in files if path.suffix in _EXTENSIONS and path.name[0] != ".")


def _find_misplaced_files(root: Path) -> Iterator[Problem]:
    folder = root / "configs" / "streams"
    if not folder.is_dir():
        yield file_problem(STREAMS, "folder not found: it must hold the declarations")
        return
    if all(os.path.lexists(folder.parent / f"holdfast{extension}") for extension in _EXTENSIONS):
        yield file_problem("configs/holdfast.yml", "is ignored: holdfast.yaml is beside it")
    for path in sorted(folder.iterdir()):
        if path.name[0] != "." and path.suffix not in (*_EXTENSIONS, ".md"):
            needed = (
                "move what it holds into configs/streams"
                if path.is_dir()
                else "its name must end in .yaml or .yml"
            )
            yield file_problem(_display_name(path, root), f"is ignored: {needed}")


def file_problem(file: str, message: str) -> Problem:
    """A problem of a whole file."""
    return Problem(file=file, line=1, column=1, field="", value=None, message=message)


def list_tables(stream: StreamDeclaration) -> Iterator[tuple[Loc, str | None]]:
    """Where a stream declares the paths of its tables, and the paths."""
    if isinstance(stream.sink, DeltaSink):
        yield ("sink", "path"), stream.sink.path
    if isinstance(stream.source, FilesSource) and stream.source.dead_letters is not None:
        yield ("source", "dead_letters", "path"), stream.source.dead_letters.path


def _find_clashes(streams: Iterable[LoadedFile[StreamDeclaration]]) -> Iterator[Problem]:
    """Two streams of one name, reported in both files: either may have the mistake."""
    files = [(file, file.model.name, file.document) for file in streams if file.model]
    for file, name, document in files:
        other = next(
            (other for other, used, _ in files if used == name and other is not file), None
        )
        if other is not None and document is not None:
            message = f"is already used in {other.file}: choose another"
            yield document.problem_at(("name",), message, value=name)


def _find_unknown_price_lists(
    streams: Iterable[LoadedFile[StreamDeclaration]], names: Collection[str]
) -> Iterator[Problem]:
    for file in streams:
        if file.model and file.document and file.model.prices not in names:
            hint = suggest_name(file.model.prices, list(names))
            message = f"is not a price list of configs/prices: {hint}"
            yield file.document.problem_at(("prices",), message, value=file.model.prices)


def _find_unreachable_tables(
    streams: Iterable[LoadedFile[StreamDeclaration]],
    deployment: Deployment,
    document: Document | None,
) -> Iterator[Problem]:
    """A table needs conditional writes, which the embedded object store does not offer."""
    if not isinstance(deployment.object_store, EmbeddedObjectStore):
        return
    message = (
        "is in S3, but the embedded object store stores snapshots only: name a local folder, "
        "or declare an S3 endpoint in configs/holdfast.yaml (object_store: {kind: s3, …})"
    )
    for file in streams:
        for loc, path in list_tables(file.model) if file.model else ():
            if file.document and path is not None and path.startswith("s3://"):
                yield file.document.problem_at(loc, message, value=path)
                if document is not None:
                    reason = (
                        f"{file.file} has a table in S3: declare an S3 endpoint, or move the table"
                    )
                    yield document.problem_at(("object_store",), reason)


def _find_clear_secrets(streams: Iterable[LoadedFile[StreamDeclaration]]) -> Iterator[Problem]:
    """Only in files: a stream that was started with one by an older version must remain recoverable."""
    for file in streams:
        if file.model is None or file.document is None:
            continue
        for key, message in find_clear_settings(file.model.resources.spark_conf):
            yield file.document.problem_at(("resources", "spark_conf", key), message)
        for loc in find_clear_params(file.model.params):
            yield file.document.problem_at(("params", *loc), CLEAR_TEXT)
