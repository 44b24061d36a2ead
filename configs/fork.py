"""The declaration of a fork: the original's, with another name and another output."""

import secrets
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.loading import Document, LoadedFile, Problem, load_text
from holdfast.configs.project_files import STREAMS, load_files
from holdfast.ft_policies.errors import PermanentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedDeclaration:
    """A declaration that is not written yet, and the file that it goes to."""

    root: Path
    original: str
    loaded: LoadedFile[StreamDeclaration]
    document: Document
    model: StreamDeclaration

    @property
    def file(self) -> Path:
        """The file that declares the fork."""
        return self.root / self.loaded.file

    def is_written(self) -> bool:
        """Whether the file exists."""
        return self.file.is_file()

    def require_fit(self) -> None:
        """Raise if the declaration does not fit the project's other files: two places may overlap."""
        problems = load_files(self.root, added=self.loaded).problems
        if faults := [problem for problem in problems if problem.file == self.loaded.file]:
            raise _refusal(self.original, self.model.name, faults[0])

    def write(self) -> None:
        """Write the file atomically."""
        scratch = self.file.with_name(f".{self.file.name}.{secrets.token_hex(4)}.tmp")
        scratch.write_text(self.document.text, encoding="utf-8")
        scratch.replace(self.file)


def declare_fork(root: Path, stream: str, *, name: str, output: str | None) -> ForkedDeclaration:
    """The declaration of a fork; without `output` its table is beside the original's.

    `PermanentError` if the stream is not declared, if its sink is a function, or if the name is not valid.
    """
    document = dict(_load_document(root, stream))
    document["name"] = name
    document["sink"] = _fork_sink(document.get("sink") or {}, stream, name, output)
    source = document.get("source") or {}
    dead_letters = source.get("dead_letters") or {}
    if dead_letters.get("path") is not None:
        path = _sibling(dead_letters["path"], f"{name}_dead_letters")
        document["source"] = {**source, "dead_letters": {**dead_letters, "path": path}}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    loaded = load_text(text, StreamDeclaration, file=f"{STREAMS}/{name}.yaml")
    if loaded.model is None or loaded.document is None:
        raise _refusal(stream, name, loaded.problems[0])
    return ForkedDeclaration(
        root=root, original=stream, loaded=loaded, document=loaded.document, model=loaded.model
    )


def _refusal(stream: str, name: str, problem: Problem) -> PermanentError:
    value = f": {problem.value}" if problem.value else ""
    return PermanentError(
        f"the fork {name} of {stream} cannot be declared: {problem.field}{value}: {problem.message}",
        hint="choose another name, or another path with `--output`",
    )


def _load_document(root: Path, stream: str) -> dict[str, Any]:
    for file in load_files(root).streams:
        if file.model is not None and file.document is not None and file.model.name == stream:
            document: dict[str, Any] = file.document.value
            return document
    raise PermanentError(
        f"{stream} is not declared: no file in configs/streams has this name",
        hint="run `holdfast status` to list the streams",
    )


def _fork_sink(
    declared: dict[str, Any], stream: str, name: str, output: str | None
) -> dict[str, Any]:
    if declared.get("kind", DeltaSink().kind) != DeltaSink().kind:
        raise PermanentError(
            f"{stream} cannot be forked: the function of its sink would write where the original writes",
            hint="declare a new stream with another function",
        )
    original = declared.get("path")
    path = output if output is not None or original is None else _sibling(original, name)
    others = {key: value for key, value in declared.items() if key != "path"}
    return {**others, "kind": DeltaSink().kind, **({} if path is None else {"path": path})}


def _sibling(path: str, name: str) -> str:
    """Another folder with the same parent; `path` may be a URL."""
    scheme, mark, rest = path.rpartition("://")
    return f"{scheme}{mark}{PurePosixPath(rest).with_name(name)}"
