"""The declaration of a fork: the original's as it is written, with a name and an output of its own."""

import secrets
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import ValidationError

from configs.project import gather
from configs.sinks import DeltaSink
from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedDeclaration:
    """A declaration that is not written yet, and the file that it goes to."""

    file: Path
    document: dict[str, Any]
    model: StreamDeclaration

    def is_written(self) -> bool:
        """Whether the file is there."""
        return self.file.is_file()

    def write(self) -> None:
        """Write the file, whole or not at all."""
        scratch = self.file.with_name(f".{self.file.name}.{secrets.token_hex(4)}.tmp")
        scratch.write_text(yaml.safe_dump(self.document, sort_keys=False, allow_unicode=True))
        scratch.replace(self.file)


def forked(root: Path, stream: str, *, name: str, output: str | None) -> ForkedDeclaration:
    """The declaration of a fork; without `output` its table lies beside the original's."""
    document = dict(_written(root, stream))
    document["name"] = name
    document["sink"] = _sink(document.get("sink") or {}, name, output)
    source = document.get("source") or {}
    aside = source.get("dead_letters") or {}
    if aside.get("path") is not None:
        moved = {**aside, "path": _beside(aside["path"], f"{name}_dead_letters")}
        document["source"] = {**source, "dead_letters": moved}
    try:
        model = StreamDeclaration.model_validate(document)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"])
        raise PermanentError(
            f"the fork cannot be declared: {field} {problem['msg']}",
            hint="a name has lower-case letters, digits and underscores, as those of other streams",
        ) from error
    file = root / "configs" / "streams" / f"{name}.yaml"
    return ForkedDeclaration(file=file, document=document, model=model)


def _written(root: Path, stream: str) -> dict[str, Any]:
    for read in gather(root).streams:
        if read.model is not None and read.document is not None and read.model.name == stream:
            document: dict[str, Any] = read.document.value
            return document
    raise PermanentError(
        f"no file declares {stream}", hint="`holdfast check` tells what is declared"
    )


def _sink(declared: dict[str, Any], name: str, output: str | None) -> dict[str, Any]:
    if declared.get("kind", DeltaSink().kind) != DeltaSink().kind:
        raise PermanentError(
            "a fork of a stream with a sink of your own would write to where the original writes",
            hint="declare a new stream with another function",
        )
    path = declared.get("path")
    own = output if output is not None or path is None else _beside(path, name)
    rest = {key: value for key, value in declared.items() if key != "path"}
    return {**rest, "kind": DeltaSink().kind, **({} if own is None else {"path": own})}


def _beside(path: str, name: str) -> str:
    """Another folder with the same parent."""
    scheme, mark, rest = path.rpartition("://")
    return f"{scheme}{mark}{PurePosixPath(rest).with_name(name)}"
