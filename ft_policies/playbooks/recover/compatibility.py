"""Changes of a declaration that no checkpoint survives, detected before anything is touched."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIXED = {
    "source": "the epoch log belongs to this source; declare a new stream for another source",
    "sink": "the output is in this sink; declare a new stream for another sink",
    "output_mode": "the state was built for this output mode; declare a new stream for another mode",
}
PROMISES = ("idempotent",)  # a promise about a sink does not change its content
FREE = {"sink": PROMISES}
FREE_AT_START = {
    "source": ("schema", "dead_letters", "poll", "settle", "kept_for"),
    "sink": PROMISES,
}
"""What may differ when a stopped stream starts: it decides which input waits, never what a decided epoch has read."""
WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
"""Types that hold all values of another one."""
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
    return [
        *_field_objections(source, target, FREE),
        *_conf_objections(source_conf, target_conf),
    ]


def start_objections(
    source: Mapping[str, Any],
    target: Mapping[str, Any],
    *,
    source_conf: Mapping[str, str],
    target_conf: Mapping[str, str],
    source_columns: Mapping[str, str],
    target_columns: Mapping[str, str],
) -> list[Objection]:
    """Changes that a stopped stream with a past cannot be started with.

    They are those of a migration, except that a stream may have stopped because of its schema or of a record that
    is now rejected: it may read more columns, and wider types. The columns are those that committed epochs were
    read with; without one every schema will do.
    """
    return [
        *_field_objections(source, target, FREE_AT_START),
        *_column_objections(source_columns, target_columns),
        *_conf_objections(source_conf, target_conf),
    ]


def needs_trial(source: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether the query itself may differ, so that only a trial in Spark shows if it can continue."""
    conf = [side.get("resources", {}).get("spark_conf", {}) for side in (source, target)]
    return conf[0] != conf[1] or any(source.get(name) != target.get(name) for name in TRIED)


def _field_objections(
    source: Mapping[str, Any], target: Mapping[str, Any], free: Mapping[str, Sequence[str]]
) -> Iterator[Objection]:
    for name, instead in FIXED.items():
        before, after = (
            _omit_free(side.get(name), free.get(name, ())) for side in (source, target)
        )
        if before != after:
            yield Objection(name, before, after, instead)


def _column_objections(source: Mapping[str, str], target: Mapping[str, str]) -> Iterator[Objection]:
    """Columns that are gone, or whose values may not be the same."""
    instead = "state and output were made with it; declare a new stream for another schema"
    for column, before in source.items():
        after = target.get(column)
        if after is None:
            yield Objection("source.schema", f"{column} {before}", f"none of {column}", instead)
        elif after != before and after not in WIDER.get(before, ()):
            yield Objection("source.schema", f"{column} {before}", f"{column} {after}", instead)


def _omit_free(declared: Any, free: Sequence[str]) -> Any:
    if not isinstance(declared, Mapping):
        return declared
    return {key: value for key, value in declared.items() if key not in free}


def _conf_objections(source: Mapping[str, str], target: Mapping[str, str]) -> Iterator[Objection]:
    for key in sorted(source.keys() | target.keys()):
        if source.get(key) != target.get(key):
            instead = "checkpoints depend on it; declare a new stream, which replays from the start"
            yield Objection(key, source.get(key), target.get(key), instead)
