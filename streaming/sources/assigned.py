"""Which listed files an epoch has already, and which of them were replaced by other files since."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.resources.control_store.epoch_records import EpochFile
from holdfast.streaming.sources.files import ListedFile

if TYPE_CHECKING:
    from holdfast.resources.control_store.store import ControlStore

INPUT_REUSED = "input_reused"
REPORTED_FILES = 20

log = logging.getLogger(__name__)


def assigned_names(
    store: "ControlStore", stream: str, replica: str, files: Sequence[ListedFile]
) -> set[str]:
    """Which of these files an epoch has; opens an incident if one is another file by now.

    Such a file is not read: it may be a producer's mistake, and the stream continues with the others.
    """
    listed = {file.name: file for file in files}
    assigned = store.epoch_files.named(stream, list(listed))
    reused = [file for file in assigned if _is_other(file, listed[file.name])]
    if reused:
        _report_reused(store, stream, replica, reused)
    return {file.name for file in assigned}


def _is_other(assigned: EpochFile, listed: ListedFile) -> bool:
    before = (assigned.size, assigned.changed_ns)
    return None not in before and before != (listed.size_bytes, listed.changed_ns)


def _report_reused(
    store: "ControlStore", stream: str, replica: str, reused: Sequence[EpochFile]
) -> None:
    file = reused[0]
    others = f" (and {len(reused) - 1} more)" if len(reused) > 1 else ""
    reason = f"{file.name}{others} has changed since epoch {file.epoch} was decided with it"
    log.error("%s", reason)
    store.incidents.open_next(
        stream=stream,
        key=f"{stream}/input-reused",
        kind=INPUT_REUSED,
        replica=replica,
        detail={
            "reason": reason,
            "epoch": file.epoch,
            "files": [file.name for file in reused[:REPORTED_FILES]],
            "hint": "give new input a new name, and put the original file back: a replay of its epoch needs it",
        },
        since=store.now(),
    )
