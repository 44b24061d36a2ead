"""A project: a folder with `configs/holdfast.yaml`, `configs/streams/*.yaml` and `configs/prices/*.yaml`.

Loading it reads YAML only: no user code, no Spark, no Dagster, so that every command starts fast.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from configs.deployment import Deployment
from configs.gathering import Gathered, gather
from configs.loading import Document
from configs.price_list import PriceList
from configs.problems import InvalidConfig, Problem, suggestion
from configs.references import Named, check_references, named_by_deployment, named_by_stream
from configs.sinks import DeltaSink
from configs.sources import FilesSource
from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError

PROJECT_VARIABLE = "HOLDFAST_PROJECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """Everything that people declared, checked."""

    root: Path
    home: Path
    deployment: Deployment
    streams: Mapping[str, StreamDeclaration]
    prices: Mapping[str, PriceList]

    @staticmethod
    def load(root: Path) -> "ProjectConfig":
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


def _project_of(root: Path, gathered: Gathered) -> ProjectConfig:
    deployment = gathered.deployment
    return ProjectConfig(
        root=root,
        home=(root / Path(deployment.home).expanduser()).resolve(),
        deployment=deployment,
        streams={read.model.name: read.model for read in gathered.streams if read.model},
        prices=gathered.prices,
    )
