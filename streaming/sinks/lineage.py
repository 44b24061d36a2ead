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

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from holdfast.ft_policies.errors import PermanentError

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
CLOSED = 2**62
"""The version of an application transaction that nothing can follow: its history has ended."""
FIRST_LOOK = 500
_MERGED_FOLDER = re.compile(r"data/(\d{12})-(\d{12})-merged-[0-9a-f]{8}/")
_EPOCH_FOLDER = re.compile(r"data/(\d{12})-")


@dataclass(frozen=True, slots=True, order=True)
class EpochRange:
    """Epochs from the first to the last."""

    first: int
    last: int

    def __contains__(self, epoch: int) -> bool:
        return self.first <= epoch <= self.last

    def overlaps(self, other: "EpochRange") -> bool:
        return self.first <= other.last and other.first <= self.last


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
    history: int = 0
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
                history=int(line.get(HISTORY, 0)),
                whole_past=whole_past,
            )


def version_after(table: DeltaTable, stream: str, epoch: int) -> int:
    """The newest version of a table that has no epoch after this one; raises if its log is too short.

    The table has to be up to date: Delta lists the history backwards from the loaded version.
    """
    limit = FIRST_LOOK
    while True:
        lines = table.history(limit)
        commits = list(epoch_commits(lines, stream))
        reached = any(commit.epoch <= epoch for commit in commits)
        if reached or len(lines) < limit:
            break
        limit *= 4
    later = [commit for commit in commits if commit.epoch > epoch]
    if not later:
        return table.version()
    first = min(later, key=lambda commit: commit.version)
    whole = bool(lines) and lines[-1]["version"] == 0
    if first.whole_past or not (reached or whole or _ends_by(table, stream, epoch, first)):
        raise PermanentError(
            f"the history of the table {table.table_uri} does not reach back to epoch {epoch}: "
            f"the oldest epoch in it is {first.epoch}",
            hint="restore to a later epoch, or give the stream a new table and start it from epoch 0",
        )
    return first.version - 1


def _ends_by(table: DeltaTable, stream: str, epoch: int, first: EpochCommit) -> bool:
    """Whether the version before the first commit in the log can be read and has no later epoch.

    The writer's application transaction is in the checkpoint, when the commits before it are deleted.
    """
    newest = table.version()
    try:
        table.load_as_version(first.version - 1)
        last = table.transaction_version(writer(stream, first.history))
    except DeltaError:
        return False
    finally:
        table.load_as_version(newest)
    return last is not None and last <= epoch
