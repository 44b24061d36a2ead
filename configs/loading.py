"""Loads a YAML file into a model; every mistake becomes a problem with its line, field and value."""

import errno
import json
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from holdfast.configs.secret_references import names_secret
from holdfast.configs.units import Section
from holdfast.ft_policies.errors import PermanentError

_PASSWORD = re.compile(r"(://[^/@:]*):.*", re.DOTALL)
MOST_BYTES = 256 * 1024
MOST_NODES = 5_000
MOST_DIGITS = 300
_BOUNDS = {
    "greater_than": ("gt", "must be more than {:g}"),
    "greater_than_equal": ("ge", "must be at least {:g}"),
    "less_than": ("lt", "must be less than {:g}"),
    "less_than_equal": ("le", "must be at most {:g}"),
    "string_too_short": ("min_length", "must not be empty"),
    "string_too_long": ("max_length", "must have at most {} characters"),
}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "string": "text (put it in quotes)",
    "datetime": "a date and time such as 2026-01-31T12:00:00Z",
    "date": "a date such as 2026-01-31",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping of names to values",
    "model": "a mapping of fields",
    "invalid": "plain text, numbers, true, false, lists or mappings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem in a file: its place, the field, the value as written, and what is wrong or allowed."""

    file: str
    line: int
    column: int
    field: str
    value: str | None
    message: str

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}:{self.column}", self.field, self.value]
        return ": ".join([part for part in parts if part] + [self.message])


class InvalidConfig(PermanentError):  # noqa: N818 - a word of messages and docs
    """The files of a project have problems; `problems` lists all of them."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(
            f"{count} in the configuration\n{lines}",
            hint="correct these lines, then run `holdfast check`",
        )
        self.problems = problems


def format_value(value: Any) -> str:
    """A value as it is written in the file, on one short line, without passwords."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    before, at, after = text.rpartition("@")  # a password may have / and @ in it
    text = _PASSWORD.sub(r"\1:***", before, count=1) + at + after
    return text if len(text) <= 80 else text[:77] + "..."


def suggest_name(wrong: str, names: list[str]) -> str:
    """A hint: the known name that is most alike, or all of them."""
    nearest = get_close_matches(wrong, names, n=1)
    if nearest:
        return f"did you mean {nearest[0]}?"
    return f"choose one of {', '.join(sorted(names))}" if names else "there are none"


def describe_error(kind: str, context: Mapping[str, Any], message: str) -> str:
    """The message for an error of pydantic."""
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return words.format(context[bound])
    if kind in ("literal_error", "enum"):
        return f"must be one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')}"
    if kind in ("relation", "quantity", "shape", "retention"):
        return message
    allowed = _KINDS.get(kind.partition("_")[0])
    return f"must be {allowed}" if allowed else message


def list_fields(model: type[Section], loc: tuple[int | str, ...]) -> list[str]:
    """The names that may be written in the section at `loc`."""
    return sorted(
        {name for section in _sections_at(model, loc) for name, _ in _list_annotations(section)}
    )


def list_kinds(model: type[Section], loc: tuple[int | str, ...]) -> list[str]:
    """The values that `kind` may have in the section at `loc`."""
    return [_kind_of(section) for section in _sections_at(model, loc)]


def _sections_at(model: type[Section], loc: tuple[int | str, ...]) -> list[type[Section]]:
    current = [model]
    for part in loc:
        tagged = [section for section in current if _kind_of(section) == part]
        current = tagged or [
            inner
            for section in current
            for name, annotation in _list_annotations(section)
            if name == part
            for inner in _find_sections(annotation)
        ]
    return current


def _list_annotations(section: type[Section]) -> Iterator[tuple[str, Any]]:
    for name, field in section.model_fields.items():
        yield field.alias or name, field.annotation


def _find_sections(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _find_sections(argument)


def _kind_of(section: type[Section]) -> str:
    kind = section.model_fields.get("kind")
    return str(kind.default) if kind else ""


Loc = tuple[int | str, ...]
T = TypeVar("T", bound=Section)


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Loader(yaml.SafeLoader):
    """Keeps invalid dates and numbers as text, so that the model reports them with their field.

    It counts values while it reads, an alias as the values that it stands for: a few lines of aliases can
    stand for more values than there is memory.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        anchor, before = getattr(event, "anchor", None), self._nodes
        is_alias = isinstance(event, yaml.AliasEvent)
        self._nodes += self._sizes.get(str(anchor), 1) if is_alias else 1
        if self._nodes > MOST_NODES:
            message = f"has more than {MOST_NODES} values: shorten it"
            raise yaml.MarkedYAMLError(problem=message, problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and any("\ud800" <= c <= "\udfff" for c in node.value):
            message = "has half of a character: write the whole one"
            raise yaml.MarkedYAMLError(problem=message, problem_mark=node.start_mark)
        if anchor is not None and not is_alias:
            self._sizes[str(anchor)] = self._nodes - before
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
            return str(node.value)
        try:
            return super().construct_object(node, deep)
        except ValueError:
            return str(node.value)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, the node that every part of the value came from, and its text."""

    file: str
    value: Any
    root: yaml.Node
    text: str

    def problem_at(self, loc: Loc, message: str, *, value: Any = None) -> Problem:
        """A problem at the field `loc`, or at the nearest section above it that is in the file."""
        mark = _find_mark(self.root, loc)
        hidden = value is None or any(names_secret(str(part)) for part in loc)
        return Problem(
            file=self.file,
            line=mark.line + 1,
            column=mark.column + 1,
            field=".".join(str(part) for part in loc),
            value=None if hidden else format_value(value),
            message=message,
        )


@dataclass(frozen=True, slots=True)
class LoadedFile(Generic[T]):
    """A file: its model if it is valid, otherwise its problems."""

    file: str
    document: Document | None = None
    model: T | None = None
    problems: tuple[Problem, ...] = ()


def load_file(path: Path, model: type[T], *, file: str) -> LoadedFile[T]:
    """Read one file; `file` is the name to show."""
    try:
        return load_text(_read(path, file), model, file=file)
    except _ReadError as error:
        return LoadedFile(file, problems=error.problems)


def load_text(text: str, model: type[T], *, file: str) -> LoadedFile[T]:
    """Read the text of a file, which need not be written yet."""
    try:
        document = _parse(text, file)
    except _ReadError as error:
        return LoadedFile(file, problems=error.problems)
    try:
        return LoadedFile(file, document, model.model_validate(document.value))
    except ValidationError as invalid:
        errors = [e for e in invalid.errors() if e["type"] != "default_factory_not_called"]
        problems = tuple(_describe_problem(document, model, error) for error in errors)
        return LoadedFile(file, document, problems=problems)


class _ReadError(Exception):
    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems


def _file_error(file: str, message: str, mark: yaml.Mark | None = None) -> _ReadError:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return _ReadError(
        Problem(file=file, line=line, column=column, field="", value=None, message=message)
    )


def read_start(path: Path) -> bytes:
    """The first bytes of a file, one more than it may have; `OSError` for a device or a pipe, which may have no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    with path.open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def _read(path: Path, file: str) -> str:
    try:
        text = read_start(path)
        if len(text) > MOST_BYTES:
            raise _file_error(file, f"is larger than {MOST_BYTES} bytes: shorten it")
        return text.decode()
    except UnicodeDecodeError as error:
        raise _file_error(file, f"is not valid YAML: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise _file_error(file, f"cannot be read: {error.strerror}") from error


def _parse(text: str, file: str) -> Document:
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            raise _file_error(file, "is empty: must be a mapping of fields")
        duplicates = [
            _file_error(
                file, f"{key.value} is set twice: remove one of them", key.start_mark
            ).problems[0]
            for key in _find_duplicates(root)
        ]
        if duplicates:
            raise _ReadError(*duplicates)
        return Document(file, loader.construct_document(root), root, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _file_error(file, f"is not valid YAML: {error.problem}", mark) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _file_error(file, f"is not valid YAML: {' '.join(str(error).split())}") from error


def _find_duplicates(root: yaml.Node) -> Iterator[yaml.ScalarNode]:
    waiting, visited = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in visited or not isinstance(node, yaml.CollectionNode):
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
            continue
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        names = set[Any]()
        for key in keys:
            if key.value in names:
                yield key
            names.add(key.value)
        waiting.extend(value for _, value in node.value)


def _find_mark(node: yaml.Node, loc: Loc) -> yaml.Mark:
    mark = node.start_mark
    for part in loc:
        match node:
            case yaml.MappingNode():
                pairs = [(k, v) for k, v in node.value if str(k.value) == str(part)]
                if not pairs:
                    break
                key, node = pairs[-1]
                mark = key.start_mark
            case yaml.SequenceNode() if isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                mark = node.start_mark
            case _:
                break
    return mark


def _path_in_file(loc: Loc, value: Any) -> Loc:
    """The path in the file: without the tags that pydantic adds for kinds, and without `[key]`."""
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


def _describe_problem(document: Document, model: type[Section], error: ErrorDetails) -> Problem:
    kind, context, loc = (
        error["type"],
        error.get("ctx", {}),
        _path_in_file(error["loc"], document.value),
    )
    match kind:
        case "missing":
            return document.problem_at(loc, "is required")
        case "extra_forbidden" | "invalid_key":
            hint = suggest_name(str(loc[-1]), list_fields(model, error["loc"][:-1]))
            return document.problem_at(loc, f"is not a field here: {hint}", value=error["input"])
        case "union_tag_invalid" | "union_tag_not_found":
            allowed = f"must be one of {', '.join(list_kinds(model, error['loc']))}"
            return document.problem_at((*loc, "kind"), allowed, value=context.get("tag"))
        case "relation":
            at = context["at"]
            return document.problem_at(
                (*loc, *at), context["message"], value=_value_at(document.value, (*loc, *at))
            )
        case _:
            message = describe_error(kind, context, error["msg"])
            return document.problem_at(loc, message, value=error["input"])


def _value_at(value: Any, loc: Loc) -> Any:
    for part in loc:
        value = value.get(part) if isinstance(value, dict) else None
    return value
