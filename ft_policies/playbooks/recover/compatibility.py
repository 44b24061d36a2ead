"""Changes of a declaration that no checkpoint survives, detected before anything is touched."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FIXED = {
    "source": "the epoch log belongs to this source; declare a new stream for another source",
    "sink": "the output is in this sink; declare a new stream for another sink",
    "output_mode": "the state was built for this output mode; declare a new stream for another mode",
}
PROMISES = ("idempotent",)  # a promise about a sink does not change its content
IDENTITY = {
    "source": ("kind", "path", "seed", "keys", "partitions", "start"),
    "sink": ("kind", "path", "function"),
}
TRIED = ("app", "code", "params")


@dataclass(frozen=True, slots=True)
class Objection:
    """A change that cannot be migrated, and what to do instead."""

    field: str
    before: Any
    after: Any
    instead: str

    def __str__(self) -> str:
        return f"{self.field} cannot change from {self.before} to {self.after}: {self.instead}"


def objections(
    source: Mapping[str, Any],
    target: Mapping[str, Any],
    *,
    source_conf: Mapping[str, str],
    target_conf: Mapping[str, str],
) -> list[Objection]:
    """Changes between two declarations that no checkpoint survives.

    The confs contain what a checkpoint depends on, including defaults.
    """
    return [*_field_objections(source, target), *_conf_objections(source_conf, target_conf)]


def start_objections(
    source: Mapping[str, Any],
    target: Mapping[str, Any],
    *,
    source_conf: Mapping[str, str],
    target_conf: Mapping[str, str],
) -> list[Objection]:
    """Changes that a stopped stream with a past cannot be started with.

    They are fewer than those of a migration: a stream may have stopped because of its schema or of a record
    that is now rejected, but its source and its sink stay the same.
    """
    return [
        *(
            Objection(name, _identity(name, source), _identity(name, target), instead)
            for name, instead in FIXED.items()
            if _identity(name, source) != _identity(name, target)
        ),
        *_conf_objections(source_conf, target_conf),
    ]


def _identity(name: str, declaration: Mapping[str, Any]) -> Any:
    declared = declaration.get(name)
    if name not in IDENTITY or not isinstance(declared, Mapping):
        return declared
    return {key: declared[key] for key in IDENTITY[name] if declared.get(key) is not None}


def needs_trial(source: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether the query itself may differ, so that only a trial in Spark shows if it can continue."""
    conf = [side.get("resources", {}).get("spark_conf", {}) for side in (source, target)]
    return conf[0] != conf[1] or any(source.get(name) != target.get(name) for name in TRIED)


def _field_objections(source: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[Objection]:
    for name, instead in FIXED.items():
        before, after = source.get(name), target.get(name)
        if _without_promises(before) != _without_promises(after):
            yield Objection(name, before, after, instead)


def _without_promises(declared: Any) -> Any:
    if not isinstance(declared, Mapping):
        return declared
    return {key: value for key, value in declared.items() if key not in PROMISES}


def _conf_objections(source: Mapping[str, str], target: Mapping[str, str]) -> Iterator[Objection]:
    for key in sorted(source.keys() | target.keys()):
        if source.get(key) != target.get(key):
            instead = "checkpoints depend on it; declare a new stream, which replays from the start"
            yield Objection(key, source.get(key), target.get(key), instead)
