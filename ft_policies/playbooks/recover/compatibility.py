"""What a checkpoint does not survive, found before anything is touched."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FIXED = {
    "source": "the epoch log is of this source: make a new stream for another one",
    "sink": "the output is in this sink: make a new stream for another one",
    "output_mode": "the state was built for this output mode: make a new stream for another one",
}
PROMISES = ("idempotent",)  # what is said of a sink changes nothing of what is in it
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

    The confs have what a checkpoint depends on, defaults among it.
    """
    return [*_of_fields(source, target), *_of_conf(source_conf, target_conf)]


def needs_trial(source: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether the query itself may be another, so that only Spark can tell whether it goes on."""
    conf = [one.get("resources", {}).get("spark_conf", {}) for one in (source, target)]
    return conf[0] != conf[1] or any(source.get(name) != target.get(name) for name in TRIED)


def _of_fields(source: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[Objection]:
    for name, instead in FIXED.items():
        before, after = source.get(name), target.get(name)
        if _without_promises(before) != _without_promises(after):
            yield Objection(name, before, after, instead)


def _without_promises(declared: Any) -> Any:
    if not isinstance(declared, Mapping):
        return declared
    return {key: value for key, value in declared.items() if key not in PROMISES}


def _of_conf(source: Mapping[str, str], target: Mapping[str, str]) -> Iterator[Objection]:
    for key in sorted(source.keys() | target.keys()):
        if source.get(key) != target.get(key):
            instead = "a checkpoint is bound to it: make a new stream, which replays from the start"
            yield Objection(key, source.get(key), target.get(key), instead)
