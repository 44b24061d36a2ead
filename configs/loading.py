"""Reads a YAML file into a model; every mistake becomes a problem with its line."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from configs.fields import alternatives, known_fields
from configs.problems import Problem, is_secret, sentence, shown, suggestion
from configs.units import Section

Loc = tuple[int | str, ...]
T = TypeVar("T", bound=Section)


class _Loader(yaml.SafeLoader):
    """Leaves as text what only looks like a date or a number, for the model to judge."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        try:
            return super().construct_object(node, deep)
        except ValueError:
            return str(node.value)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, and the node that every part of the value came from."""

    file: str
    value: Any
    root: yaml.Node

    def problem(self, loc: Loc, message: str, *, value: Any = None) -> Problem:
        """A problem at the field `loc`, or at the nearest place above it that was written."""
        mark = _locate(self.root, loc)
        hidden = value is None or any(is_secret(str(part)) for part in loc)
        return Problem(
            file=self.file,
            line=mark.line + 1,
            column=mark.column + 1,
            field=".".join(str(part) for part in loc),
            value=None if hidden else shown(value),
            message=message,
        )


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What came of reading one file: the model, or the problems that it has."""

    file: str
    document: Document | None = None
    model: T | None = None
    problems: tuple[Problem, ...] = ()


def read(path: Path, model: type[T], *, file: str) -> Read[T]:
    """Read one file; `file` is the name to show."""
    try:
        document = _parse(path, file)
    except _ReadError as error:
        return Read(file, problems=error.problems)
    try:
        return Read(file, document, model.model_validate(document.value))
    except ValidationError as invalid:
        errors = [e for e in invalid.errors() if e["type"] != "default_factory_not_called"]
        found = tuple(_translate(document, model, error) for error in errors)
        return Read(file, document, problems=found)


class _ReadError(Exception):
    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems


def _broken(file: str, message: str, mark: yaml.Mark | None = None) -> _ReadError:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return _ReadError(
        Problem(file=file, line=line, column=column, field="", value=None, message=message)
    )


def _parse(path: Path, file: str) -> Document:
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        if root is None:
            raise _broken(file, "is empty: must be a mapping of fields")
        duplicates = [
            _broken(file, f"{key.value} is set twice", key.start_mark).problems[0]
            for key in _duplicates(root)
        ]
        if duplicates:
            raise _ReadError(*duplicates)
        return Document(file, loader.construct_document(root), root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _broken(file, f"is not valid YAML: {error.problem}", mark) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(file, f"is not valid YAML: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise _broken(file, f"cannot be read: {error.strerror}") from error


def _duplicates(root: yaml.Node) -> Iterator[yaml.ScalarNode]:
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
            continue
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        names = [key.value for key in keys]
        yield from (key for at, key in enumerate(keys) if key.value in names[:at])
        waiting.extend(value for _, value in node.value)


def _locate(node: yaml.Node, loc: Loc) -> yaml.Mark:
    mark = node.start_mark
    for part in loc:
        match node:
            case yaml.MappingNode():
                found = [(k, v) for k, v in node.value if str(k.value) == str(part)]
                if not found:
                    break
                key, node = found[-1]
                mark = key.start_mark
            case yaml.SequenceNode() if isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                mark = node.start_mark
            case _:
                break
    return mark


def _written(loc: Loc, value: Any) -> Loc:
    """The path in the file: without the tags that pydantic adds for alternatives, or `[key]`."""
    path: list[int | str] = []
    tagged = False
    for part in loc:
        if isinstance(value, dict) and value.get("kind") == part and not tagged:
            tagged = True
            continue
        if part == "[key]":
            break
        path.append(part)
        tagged = False
        try:
            value = value[part]
        except (LookupError, TypeError):
            value = None
    return tuple(path)


def _translate(document: Document, model: type[Section], error: ErrorDetails) -> Problem:
    kind, context, loc = error["type"], error.get("ctx", {}), _written(error["loc"], document.value)
    match kind:
        case "missing":
            return document.problem(loc, "is required")
        case "extra_forbidden" | "invalid_key":
            hint = suggestion(str(loc[-1]), known_fields(model, error["loc"][:-1]))
            return document.problem(loc, f"is not a field here: {hint}", value=error["input"])
        case "union_tag_invalid" | "union_tag_not_found":
            allowed = f"must be one of {', '.join(alternatives(model, error['loc']))}"
            return document.problem((*loc, "kind"), allowed, value=context.get("tag"))
        case "relation":
            at = context["at"]
            return document.problem(
                (*loc, *at), context["sentence"], value=_follow(document.value, (*loc, *at))
            )
        case _:
            message = sentence(kind, context, error["msg"])
            return document.problem(loc, message, value=error["input"])


def _follow(value: Any, loc: Loc) -> Any:
    for part in loc:
        value = value.get(part) if isinstance(value, dict) else None
    return value
