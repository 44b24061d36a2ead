"""The columns of a source, in Spark's DDL: `id bigint, tags array<string>`; checked without Spark."""

import re

from pydantic_core import PydanticCustomError

_TOKEN = re.compile(
    r"""\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_0-9]+|[<>(),:])"""
)
_SIMPLE = frozenset(
    [
        "boolean",
        "tinyint",
        "byte",
        "smallint",
        "short",
        "int",
        "integer",
        "bigint",
        "long",
        "float",
        "real",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "timestamp_ltz",
        "string",
        "binary",
        "decimal",
        "dec",
        "numeric",
    ]
)
_SIZED = frozenset({"char", "character", "varchar", "decimal", "dec", "numeric"})
_DEEPEST = 20


def check_columns(written: str) -> str:
    """The text itself; a validation error for an unknown type, a column twice, or other mistakes."""
    reader = _Reader(written)
    names = reader.fields(end=None, depth=0)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _fault(f"names the column {twice[0]} twice")
    return written


def _fault(message: str) -> PydanticCustomError:
    allowed = "write columns as Spark does, such as: id bigint, word string, tags array<string>"
    return PydanticCustomError("shape", "{message}", {"message": f"{message}: {allowed}"})


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at, text = 0, text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _fault(f"has {text[at:].split()[0]!r}, which is no part of a schema")
            self._tokens.append(match[1])
            at = match.end()
        self._at = 0

    def fields(self, *, end: str | None, depth: int) -> list[str]:
        """Read `name type, …` up to `end`; returns the names."""
        names = []
        while True:
            name = self._next("a column")
            if not re.match(r"[A-Za-z_0-9`]", name):
                raise _fault(f"has {name!r} where a column should be")
            self._skip(":")
            self._type(depth)
            self._remarks()
            names.append(name.strip("`").lower())
            if self._skip(","):
                continue
            if self._peek() != end:
                raise _fault(f"has {self._peek() or 'its end'!r} after the column {name}")
            return names

    def _type(self, depth: int) -> None:
        name = self._next("a type").lower()
        if depth > _DEEPEST:
            raise _fault("is nested too deeply")
        if name in ("array", "map", "struct"):
            self._nested(name, depth)
        elif name in _SIZED and self._skip("("):
            self._size()
        elif name not in _SIMPLE:
            raise _fault(f"has {name!r}, which is no type")

    def _nested(self, name: str, depth: int) -> None:
        self._require("<")
        if name == "struct":
            self.fields(end=">", depth=depth + 1)
        else:
            self._type(depth + 1)
        if name == "map":
            self._require(",")
            self._type(depth + 1)
        self._require(">")

    def _size(self) -> None:
        while not self._skip(")"):
            number = self._next("a number")
            if not number.isdigit() and number != ",":
                raise _fault(f"has {number!r} where a number should be")

    def _remarks(self) -> None:
        if self._skip("not"):
            self._require("null")
        if self._skip("comment"):
            self._next("a text")

    def _peek(self) -> str | None:
        return self._tokens[self._at].lower() if self._at < len(self._tokens) else None

    def _skip(self, token: str) -> bool:
        found = self._peek() == token
        self._at += found
        return found

    def _require(self, token: str) -> None:
        if not self._skip(token):
            raise _fault(f"lacks {token!r}")

    def _next(self, what: str) -> str:
        if self._at >= len(self._tokens):
            raise _fault(f"ends where {what} should be")
        self._at += 1
        return self._tokens[self._at - 1]
