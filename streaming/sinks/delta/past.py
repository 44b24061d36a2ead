"""A table as it was after an epoch, from its newest version: restores and forks need no older one.

The names of files say of which epochs their rows are. A merged file with epochs before and after is cut: its first rows
are written to a new file, and compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

from deltalake import DeltaTable

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.table_epochs import (
    EpochIndex,
    EpochRange,
    RowCounts,
    split_files,
    subtract_digests,
)
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.streaming.sinks.delta.files import (
    LiveFile,
    MergedFooter,
    TableFolder,
    file_schema,
    live_files,
    read_footer,
    write_file,
)
from holdfast.streaming.sinks.delta.lineage import merged_folder
from holdfast.streaming.sinks.delta.table import require_plain_files

_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """A merged file, its range until now, and the index and the range's digest of the rows that stay."""

    file: LiveFile
    epochs: EpochRange
    index: EpochIndex
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTable:
    """What becomes of the files of a table that goes back to an epoch."""

    epoch: int
    stay: list[LiveFile]
    go: list[LiveFile]
    cut: list[Cut]

    @property
    def removed(self) -> list[LiveFile]:
        return [*self.go, *(cut.file for cut in self.cut)]


def find_past(
    table: DeltaTable, folder: TableFolder, epoch: int, later: Sequence[LedgerEntry]
) -> PastTable:
    """Divide the files of a table at an epoch; `later` are the entries of the ledger after it.

    Raises if rows of later epochs are not in files that go, or if a merged file cannot be cut there.
    """
    path = table.table_uri
    require_plain_files(table, path, done="taken back to an epoch")
    split = split_files(live_files(table), epoch)
    footers = _read_footers(folder, split.cut)
    indexes = dict(_find_indexes(path, epoch, footers))
    _require_removable(path, epoch, later, split.stay, split.go, indexes)
    digests = {entry.epoch: entry.digest for entry in later}
    return PastTable(
        epoch=epoch,
        stay=split.stay,
        go=split.go,
        cut=list(_find_cuts(epoch, footers, indexes, digests)),
    )


def write_cuts(
    table: DeltaTable,
    past: PastTable,
    source: TableFolder,
    target: TableFolder,
    *,
    unique: str | None = None,
) -> list[LiveFile]:
    """Write the rows that stay of files that are cut, into new folders below the target; deletes what fails."""
    unique, schema = unique or uuid4().hex[:8], file_schema(table)
    written: list[LiveFile] = []
    folders = {
        cut.epochs: merged_folder(EpochRange(cut.epochs.first, past.epoch), unique)
        for cut in past.cut
    }
    try:
        for cut in past.cut:
            if cut.index.rows:
                name = cut.file.path.rsplit("/", 1)[1]
                parts = filter(None, (folders[cut.epochs], cut.file.partition, name))
                file = write_file(
                    source,
                    [cut.file],
                    target,
                    "/".join(parts),
                    schema=schema,
                    digest=cut.digest,
                    index=cut.index,
                )
                written.append(file)
    except BaseException:
        for name in folders.values():
            target.delete(name)
        raise
    return written


def _read_footers(
    folder: TableFolder, files: Sequence[LiveFile]
) -> list[tuple[LiveFile, MergedFooter]]:
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(
            zip(files, pool.map(lambda file: read_footer(folder, file.path), files), strict=True)
        )


def _find_indexes(
    path: str, epoch: int, footers: Sequence[tuple[LiveFile, MergedFooter]]
) -> Iterator[tuple[LiveFile, EpochIndex]]:
    for file, footer in footers:
        index = footer.index
        if index is None or index.rows != file.rows or not index.is_known(epoch):
            raise _cannot_cut(path, epoch, file, index)
        yield file, index


def _cannot_cut(path: str, epoch: int, file: LiveFile, index: EpochIndex | None) -> PermanentError:
    assert file.epochs is not None, "only files of epochs are cut"  # noqa: S101
    first, last = file.epochs.first, file.epochs.last
    is_counted = index is not None and index.rows == file.rows
    after = index.folded if index is not None and is_counted else last
    choices = [f"epoch {first - 1}"] if first else []
    return PermanentError(
        f"the table {path} cannot be taken back to epoch {epoch}: {file.path} has the rows of epochs {first} to {last}, "
        "and does not say which are of which",
        hint=f"choose {' or '.join([*choices, f'epoch {after}'])}: the nearest that it can be taken back to",
    )


def _require_removable(
    path: str,
    epoch: int,
    later: Sequence[LedgerEntry],
    stay: Sequence[LiveFile],
    go: Sequence[LiveFile],
    indexes: Mapping[LiveFile, EpochIndex],
) -> None:
    """Raise if another program may have written rows of later epochs into files of its own."""
    others = [file.path for file in stay if file.epochs is None]
    if not others:
        return
    counts = RowCounts()
    for file in go:
        counts.add(file, None)
    for file, index in indexes.items():
        counts.add(file, index)
    lacking = counts.find_lacking({entry.epoch: entry.rows for entry in later if entry.rows})
    if lacking:
        raise PermanentError(
            f"the table {path} cannot be taken back to epoch {epoch}: rows of {len(lacking)} later epochs, the first is "
            f"{lacking[0]}, are not in files of their own: another program has written them again, as it seems to "
            f"{others[0]}",
            hint=f"choose epoch {lacking[-1]} or a later one, or undo what the other program did (RESTORE of Delta)",
        )


def _find_cuts(
    epoch: int,
    footers: Sequence[tuple[LiveFile, MergedFooter]],
    indexes: Mapping[LiveFile, EpochIndex],
    digests: Mapping[int, str],
) -> Iterator[Cut]:
    """The files that are cut; the digest of a range is that before without the epochs that go."""
    gone: dict[EpochRange, set[int]] = {}
    for file, index in indexes.items():
        if file.epochs is not None:
            epochs = (number for number, _ in index.counts if number > epoch)
            gone.setdefault(file.epochs, set()).update(epochs)
    for file, footer in footers:
        if file.epochs is not None:
            removed = [digests.get(number, "") for number in sorted(gone[file.epochs])]
            yield Cut(
                file=file,
                epochs=file.epochs,
                index=indexes[file].through(epoch),
                digest=subtract_digests(footer.digest, removed),
            )
