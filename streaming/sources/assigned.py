"""Which listed files an epoch has already, and which of them were replaced by other files since."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.resources.control_store.epoch_records import FORGOTTEN, EpochFile
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.streaming.sources.folder import ListedFile

if TYPE_CHECKING:
    from holdfast.resources.control_store.store import ControlStore

REPORTED_FILES = 20

log = logging.getLogger(__name__)


def check_assigned(
    store: "ControlStore", stream: str, replica: str, files: Sequence[ListedFile]
) -> set[str]:
    """Which of these files an epoch has or may have had; opens incidents for those that are not what they should be.

    Such a file is not read: it may be a producer's mistake, and the stream continues with the others.
    """
    listed = {file.name: file for file in files}
    assigned = _find_assigned(store, stream, files)
    reused = [file for name, file in assigned.items() if _is_other(file, listed[name])]
    if reused:
        _report_reused(store, stream, replica, reused)
    reappeared = [name for name, file in assigned.items() if file.name == FORGOTTEN]
    if reappeared:
        _report_reappeared(store, stream, replica, reappeared)
    return set(assigned)


def find_taken(store: "ControlStore", stream: str, files: Sequence[ListedFile]) -> set[str]:
    """Which of these files are not to be read: an epoch has them or may have had them."""
    return set(_find_assigned(store, stream, files))


def _find_assigned(
    store: "ControlStore", stream: str, files: Sequence[ListedFile]
) -> dict[str, EpochFile]:
    """Each file that is not to be read, with what the index has of it.

    A file that is not newer than those whose names are forgotten may have been read.
    """
    names = [file.name for file in files]
    by_name = {row.name: row for row in store.epoch_files.find(stream, [*names, FORGOTTEN])}
    forgotten = by_name.pop(FORGOTTEN, None)
    if forgotten is None or forgotten.changed_ns is None:
        return by_name
    old = [file.name for file in files if file.changed_ns <= forgotten.changed_ns]
    return {**dict.fromkeys(old, forgotten), **by_name}


def _is_other(assigned: EpochFile, listed: ListedFile) -> bool:
    before = (assigned.size, assigned.changed_ns)  # those of a forgotten file are not known
    return None not in before and before != (listed.size_bytes, listed.changed_ns)


def _report_reused(
    store: "ControlStore", stream: str, replica: str, reused: Sequence[EpochFile]
) -> None:
    _report(
        store,
        kind=IncidentKind.INPUT_REUSED,
        stream=stream,
        replica=replica,
        names=[file.name for file in reused],
        fault=f"has changed since epoch {reused[0].epoch} was decided with it",
        hint="give new input a new name, and put the original file back: a replay of its epoch needs it",
        epoch=reused[0].epoch,
    )


def _report_reappeared(
    store: "ControlStore", stream: str, replica: str, names: Sequence[str]
) -> None:
    _report(
        store,
        kind=IncidentKind.INPUT_REAPPEARED,
        stream=stream,
        replica=replica,
        names=names,
        fault="is not read: it is older than files that were read and whose names are forgotten",
        hint="remove it if it was read before; if it is new input, `touch` it",
    )


def _report(
    store: "ControlStore",
    *,
    kind: IncidentKind,
    stream: str,
    replica: str,
    names: Sequence[str],
    fault: str,
    **detail: str | int,
) -> None:
    others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    reason = f"{names[0]}{others} {fault}"
    log.error("%s", reason)
    store.incidents.open_next(
        stream=stream,
        key=f"{stream}/{kind.replace('_', '-')}",
        kind=kind,
        replica=replica,
        detail={"reason": reason, "files": list(names[:REPORTED_FILES]), **detail},
        since=store.now(),
    )
