"""Collects the files of a project, and the problems that only show when they are seen together."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from configs.deployment import Deployment, EmbeddedObjectStore
from configs.loading import Loc, Read, read
from configs.price_list import PriceList
from configs.problems import Problem, suggestion
from configs.sinks import DeltaSink
from configs.stream import StreamDeclaration

_EXTENSIONS = (".yaml", ".yml")
_PRICES_OF_HOLDFAST = Path(__file__).parent / "prices"


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
