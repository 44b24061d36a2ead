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
_SAME = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
    "character": "char",
}
_TEXTS = frozenset({"char", "character", "varchar"})
_SIZED = _TEXTS | {"decimal", "dec", "numeric"}
_MOST_DIGITS = 38
_DEEPEST = 20


def check_columns(written: str) -> str:
    """The text itself; a validation error for an unknown type, a column twice, or other mistakes."""
    read_columns(written)
    return written


def read_columns(written: str) -> dict[str, str]:
    """The type of each column, and of each part of a nested one, by its path: `tags[]`, `user.name`."""
    reader = _Reader(written)
    reader.fields(end=None, depth=0)
    return reader.types


def _fault(message: str) -> PydanticCustomError:
    allowed = "write columns as Spark does, such as: id bigint, word string, tags array<string>"
    return PydanticCustomError("shape", "{message}", {"message": f"{message}: {allowed}"})


class _Reader:
    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self._tokens: list[str] = []
        at, text = 0, text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _fault(f"has {text[at:].split()[0]!r}, which is no part of a schema")
            self._tokens.append(match[1])
            at = match.end()
        self._at = 0

    def fields(self, *, end: str | None, depth: int, path: str = "") -> None:
        """Read `name type, …` up to `end`; `path` is that of the struct that has them."""
        names = set[str]()
        while True:
            name = self._next("a column")
            if not re.match(r"[A-Za-z_0-9`]", name):
                raise _fault(f"has {name!r} where a column should be")
            if (column := name.strip("`").lower()) in names:
                raise _fault(f"names the column {column} twice")
            names.add(column)
            self._skip(":")
            self._type(depth, path + column)
            self._remarks()
            if self._skip(","):
                continue
            if self._peek() != end:
                raise _fault(f"has {self._peek() or 'its end'!r} after the column {name}")
            return

    def _type(self, depth: int, path: str) -> None:
        began, name = self._at, self._next("a type").lower()
        if depth > _DEEPEST:
            raise _fault("is nested too deeply")
        if name in ("array", "map", "struct"):
            self._parse_nested(name, depth, path)
            return
        if name in _SIZED and self._skip("("):
            self._size(name)
        elif name not in _SIMPLE:
            raise _fault(f"has {name!r}, which is no type")
        size = self._tokens[began + 1 : self._at]
        self.types[path] = _SAME.get(name, name) + "".join(size)

    def _parse_nested(self, name: str, depth: int, path: str) -> None:
        self._require("<")
        if name == "struct":
            self.fields(end=">", depth=depth + 1, path=f"{path}.")
        else:
            self._type(depth + 1, f"{path}[]" if name == "array" else f"{path}[key]")
        if name == "map":
            self._require(",")
            self._type(depth + 1, f"{path}[value]")
        self._require(">")

    def _size(self, name: str) -> None:
        size, is_text = self._number(), name in _TEXTS
        scale = self._number() if not is_text and self._skip(",") else 0
        self._require(")")
        if size < 1 or scale > size or (size > _MOST_DIGITS and not is_text):
            raise _fault(f"has a {name} of a size that Spark does not have")

    def _number(self) -> int:
        number = self._next("a number")
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise _fault(f"has {number!r} where a number should be")
        return int(number)

    def _remarks(self) -> None:
        if self._skip("not"):
            self._require("null")
        if self._skip("comment"):
            self._next("a text")

    def _peek(self) -> str | None:
        return self._tokens[self._at].lower() if self._at < len(self._tokens) else None

    def _skip(self, token: str) -> bool:
        is_next = self._peek() == token
        self._at += is_next
        return is_next

    def _require(self, token: str) -> None:
        if not self._skip(token):
            raise _fault(f"lacks {token!r}")

    def _next(self, what: str) -> str:
        if self._at >= len(self._tokens):
            raise _fault(f"ends where {what} should be")
        self._at += 1
        return self._tokens[self._at - 1]
