"""Which fields and alternatives a model knows at a place, to suggest what people meant."""

from collections.abc import Iterator
from typing import Any, get_args

from configs.units import Section


def known_fields(model: type[Section], loc: tuple[int | str, ...]) -> list[str]:
    """The names that may be written in the section at `loc`."""
    return sorted({name for section in _sections(model, loc) for name, _ in _named(section)})


def alternatives(model: type[Section], loc: tuple[int | str, ...]) -> list[str]:
    """The values that `kind` may have in the section at `loc`."""
    return [_tag(section) for section in _sections(model, loc)]


def _sections(model: type[Section], loc: tuple[int | str, ...]) -> list[type[Section]]:
    current = [model]
    for part in loc:
        tagged = [section for section in current if _tag(section) == part]
        current = tagged or [
            inner
            for section in current
            for name, annotation in _named(section)
            if name == part
            for inner in _inside(annotation)
        ]
    return current


def _named(section: type[Section]) -> Iterator[tuple[str, Any]]:
    for name, field in section.model_fields.items():
        yield field.alias or name, field.annotation


def _inside(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _inside(argument)


def _tag(section: type[Section]) -> str:
    kind = section.model_fields.get("kind")
    return str(kind.default) if kind else ""
