"""Which rows of a table are of which epochs, by the names of its files and the indexes of merged ones.

What a table had after an epoch follows from that alone, without its history: files of later epochs go, a merged file
with epochs on both sides is cut, and all others stay.
"""

import json
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Generic, Protocol, TypeVar


@dataclass(frozen=True, slots=True, order=True)
class EpochRange:
    """Epochs from the first to the last."""

    first: int
    last: int

    def __contains__(self, epoch: int) -> bool:
        return self.first <= epoch <= self.last

    def overlaps(self, other: "EpochRange") -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class EpochIndex:
    """How many rows a merged file has of each epoch, in the order of its rows.

    The epochs up to `folded` are known only together: no restore could reach them when the file was written.
    """

    counts: tuple[tuple[int, int], ...]
    folded: int = -1
    folded_rows: int = 0

    @property
    def rows(self) -> int:
        return self.folded_rows + sum(rows for _, rows in self.counts)

    def is_known(self, epoch: int) -> bool:
        """Whether the rows up to this epoch can be separated from those after it."""
        return epoch >= self.folded

    def through(self, epoch: int) -> "EpochIndex":
        """The index of the first rows of the file, those up to an epoch that is known."""
        counts = tuple(count for count in self.counts if count[0] <= epoch)
        return EpochIndex(counts, self.folded, self.folded_rows)

    def fold(self, before: int) -> "EpochIndex":
        """Forget where each epoch before this one ends."""
        old = [count for count in self.counts if count[0] < before]
        if not old:
            return self
        rows = self.folded_rows + sum(rows for _, rows in old)
        return EpochIndex(self.counts[len(old) :], old[-1][0], rows)

    def to_text(self) -> str:
        """The index as text, a few bits for an epoch like those before it."""
        epochs = [epoch for epoch, _ in self.counts]
        steps = [after - before for before, after in pairwise([0, *epochs])]
        about = [self.folded, self.folded_rows, steps, [rows for _, rows in self.counts]]
        return b64encode(zlib.compress(json.dumps(about, separators=(",", ":")).encode())).decode()


def read_index(text: str) -> EpochIndex | None:
    """Read an index; `None` if the text is none."""
    try:
        folded, folded_rows, steps, rows = json.loads(zlib.decompress(b64decode(text)))
        counts = tuple(zip(accumulate(steps), rows, strict=True))
        return EpochIndex(counts, int(folded), int(folded_rows))
    except (ValueError, TypeError, zlib.error):
        return None


def join_indexes(indexes: Iterable[EpochIndex]) -> EpochIndex:
    """The index of a file that has the rows of others, one after the other."""
    counts: dict[int, int] = {}
    folded, folded_rows = -1, 0
    for index in indexes:
        if index.folded > folded:
            folded_rows += sum(counts.values()) + index.folded_rows
            folded, counts = index.folded, {}
        for epoch, rows in index.counts:
            counts[epoch] = counts.get(epoch, 0) + rows
    return EpochIndex(tuple(counts.items()), folded, folded_rows)


class EpochFile(Protocol):
    """A file of a table; `epochs` is `None` if another program wrote it."""

    @property
    def path(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def epochs(self) -> EpochRange | None: ...


File = TypeVar("File", bound=EpochFile)


@dataclass(frozen=True, slots=True)
class SplitFiles(Generic[File]):
    """The files of a table, by what becomes of them when it goes back to an epoch."""

    stay: list[File]
    go: list[File]
    cut: list[File]


def split_files(files: Iterable[File], epoch: int) -> SplitFiles[File]:
    """Divide the files of a table at an epoch; those of other programs stay."""
    split: SplitFiles[File] = SplitFiles([], [], [])
    for file in files:
        if file.epochs is None or file.epochs.last <= epoch:
            split.stay.append(file)
        elif file.epochs.first > epoch:
            split.go.append(file)
        else:
            split.cut.append(file)
    return split


@dataclass(slots=True)
class RowCounts:
    """How many rows of each epoch are in the files of a table; some epochs are known only together."""

    epochs: Counter[int] = field(default_factory=Counter)
    ranges: Counter[EpochRange] = field(default_factory=Counter)

    def add(self, file: EpochFile, index: EpochIndex | None) -> None:
        """Count a file; the index is that of a merged one."""
        epochs = file.epochs
        if epochs is None:
            return
        if index is None:
            together, rows = epochs, file.rows
        else:
            self.epochs.update(dict(index.counts))
            together, rows = EpochRange(epochs.first, index.folded), index.folded_rows
        if together.first == together.last:
            self.epochs[together.first] += rows
        elif rows:
            self.ranges[together] += rows

    def find_lacking(self, expected: Mapping[int, int]) -> list[int]:
        """The epochs that have fewer rows in the files than expected."""
        ranges = sorted(self.ranges)
        firsts = [epochs.first for epochs in ranges]
        together: Counter[EpochRange] = Counter()
        lacking: list[int] = []
        for epoch, rows in expected.items():
            place = bisect_right(firsts, epoch) - 1
            rest = rows - self.epochs[epoch]
            if place >= 0 and epoch in ranges[place]:
                together[ranges[place]] += max(0, rest)
            elif rest > 0:
                lacking.append(epoch)
        short = [epochs for epochs, rows in together.items() if self.ranges[epochs] < rows]
        lacking += [epoch for epoch in expected if any(epoch in epochs for epochs in short)]
        return sorted(lacking)


def divide_epochs(
    merged: Iterable[EpochRange], *, known_from: int, before: int
) -> list[EpochRange]:
    """The stretches of epochs whose rows are compared with the ledger: merged ranges, and what is between them.

    What is between them counts before one epoch only. The ledger has the epochs before `known_from` in one sum: so they
    are in one stretch, with the ranges that begin there.
    """
    end, begin = max(before, known_from), 0
    ranges: list[EpochRange] = []
    for epochs in sorted(merged):
        ranges += [EpochRange(begin, min(epochs.first, end) - 1), epochs]
        begin = max(begin, epochs.last + 1)
    ranges.append(EpochRange(begin, end - 1))
    stretches = [epochs for epochs in ranges if epochs.first <= epochs.last]
    pruned = [epochs for epochs in stretches if epochs.first < known_from]
    kept = [epochs for epochs in stretches if epochs.first >= known_from]
    return [EpochRange(0, max(epochs.last for epochs in pruned)), *kept] if pruned else kept


def sum_digests(digests: Sequence[str]) -> str:
    """The digest of the rows of several epochs together; empty if one of them is unknown."""
    if not all(digests):
        return ""
    return f"{sum(int(digest, 16) for digest in digests) % 2**64:016x}"


def subtract_digests(digest: str, digests: Sequence[str]) -> str:
    """The digest of rows without those of some epochs; empty if one of them is unknown."""
    removed = sum_digests(digests)
    if not (digest and removed):
        return ""
    return f"{(int(digest, 16) - int(removed, 16)) % 2**64:016x}"
