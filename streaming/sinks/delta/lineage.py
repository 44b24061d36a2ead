"""Which commits of a stream's table are in force, by the table's own history.

Each epoch is a commit. A restore in place rolls the table back to its content after an epoch, and records
that in its own commit: earlier commits of later epochs are no longer in force. A fork begins with one
commit that has the epochs of another stream up to the fork.

Each epoch has a folder of its own, until its files are merged with those of the epochs beside it: then the name of the
folder says from which epoch to which its rows are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.ft_policies.table_epochs import EpochRange

STREAM = "holdfast.stream"
EPOCH = "holdfast.epoch"
HISTORY = "holdfast.history"
DIGEST = "holdfast.digest"
ROWS = "holdfast.rows"
REPLICA = "holdfast.replica"
TOKEN = "holdfast.token"  # noqa: S105 - a name
INPUT = "holdfast.input"
"""The digest of the input that was decided for the epoch."""
RESTORED_TO = "holdfast.restored_to"
COPIED_THROUGH = "holdfast.copied_through"
MERGED = "holdfast.merged"
"""The first and the last epoch whose files a commit has merged."""
INDEX = "holdfast.epoch_rows"
"""In the footer of a merged file: how many rows it has of each epoch."""
CLOSED = 2**62
"""The version of an application transaction that nothing can follow: its history has ended."""
_MERGED_FOLDER = re.compile(r"data/(\d{12})-(\d{12})-merged-[0-9a-f]{8}/")
_EPOCH_FOLDER = re.compile(r"data/(\d{12})-")


def merged_folder(epochs: EpochRange, unique: str) -> str:
    """The folder of merged files; folders are in the order of their last epochs."""
    return f"data/{epochs.last:012d}-{epochs.first:012d}-merged-{unique}"


def merged_epochs(path: str) -> EpochRange | None:
    """The epochs of a merged file, by its path in the table; `None` for other files."""
    match = _MERGED_FOLDER.match(path)
    return None if match is None else EpochRange(int(match[2]), int(match[1]))


def epoch_of(path: str) -> int | None:
    """The epoch of a file that was not merged; `None` for merged files and those of other programs."""
    match = None if _MERGED_FOLDER.match(path) else _EPOCH_FOLDER.match(path)
    return None if match is None else int(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommit:
    """A commit in force; with `whole_past` it has all epochs up to this one."""

    version: int
    epoch: int
    digest: str
    whole_past: bool = False


def writer(stream: str, history: int) -> str:
    """The application id under which a history of a stream commits its epochs."""
    return f"holdfast/{stream}@{history}" if history else f"holdfast/{stream}"


def dead_letter_writer(stream: str, history: int) -> str:
    """The application id under which a history of a stream commits its dead letters."""
    return f"{writer(stream, history)}/dead_letters"


def epoch_commits(lines: Sequence[Mapping[str, Any]], stream: str) -> Iterator[EpochCommit]:
    """The commits of a stream in force, newest first; `lines` are the table's history as Delta lists it."""
    through = CLOSED
    for line in lines:
        if line.get(STREAM) != stream:
            continue
        if RESTORED_TO in line:
            through = min(through, int(line[RESTORED_TO]))
        whole_past = COPIED_THROUGH in line
        through_epoch = line.get(COPIED_THROUGH if whole_past else EPOCH)
        if through_epoch is not None and int(through_epoch) <= through:
            yield EpochCommit(
                version=int(line["version"]),
                epoch=int(through_epoch),
                digest=str(line.get(DIGEST, "")),
                whole_past=whole_past,
            )
