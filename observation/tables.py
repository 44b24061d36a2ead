"""The Delta table of a stream, as audits read it: its history, its files and its newest rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.table_epochs import EpochRange
from holdfast.resources.control_store.tables.identity import dead_letters_of
from holdfast.resources.object_store.resolve import connector, delta_options
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.files import (
    LiveFile,
    TableFolder,
    epochs_twice,
    live_files,
    read_footer,
    rows_by_epoch,
)
from holdfast.streaming.sinks.delta.lineage import epoch_commits, merged_epochs, writer
from holdfast.streaming.sinks.output import StreamOutput

if TYPE_CHECKING:
    import pandas as pd

AUDITED_EPOCHS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEpochs:
    """How often each epoch is in the table's history, with which digest, and what its files say of the older ones.

    The history reaches back to epoch `first`, `None` if it has no epoch; that of a fork has the epochs before its own in
    one commit. The names of the files say which epochs they
    have: `rows` are those of epochs with files of their own, `merged` those of ranges, `twice` are epochs in several.
    Rows of older epochs that another program has written again are in files of `others`, and cannot be attributed.
    """

    first: int | None
    counts: Mapping[int, int]
    digests: Mapping[int, str]
    rows: Mapping[int, int]
    merged: Mapping[EpochRange, int]
    twice: tuple[int, ...] = ()
    others: int = 0

    def shows(self, epoch: int) -> bool:
        """Whether the history has the commit of an epoch that is in the table."""
        return self.first is not None and epoch >= self.first

    def holds(self, epoch: int) -> bool:
        """Whether an epoch with rows is in the table, as far as that is known."""
        if epoch in self.counts or epoch in self.rows:
            return True
        is_merged = any(epoch in epochs for epochs in self.merged)
        return is_merged or (self.others > 0 and not self.shows(epoch))

    def rows_within(self, epochs: EpochRange) -> int:
        """The rows of a stretch of epochs that cuts no merged range, without files of epochs that are there twice."""
        own = sum(
            rows for epoch, rows in self.rows.items() if epoch in epochs and epoch not in self.twice
        )
        ranges = (merged for merged in self.merged if merged.first in epochs)
        return own + sum(self.merged[merged] for merged in ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRows:
    """The newest files of a table as one frame."""

    frame: "pd.DataFrame"
    files: int
    files_in_all: int


def open_table(project: Project, stream: str) -> DeltaTable | None:
    """Open the stream's table; `None` before its first epoch."""
    return open_table_at(project, project.config.table_path(stream))


def open_table_at(project: Project, path: str) -> DeltaTable | None:
    """Open the Delta table at a path; `None` if there is none."""
    connect = connector(project.config.deployment.object_store, project.config.home)
    try:
        with table_errors(path):
            return DeltaTable(path, storage_options=delta_options(path, connect))
    except TableNotFoundError:
        return None


def own_tables(project: Project, stream: str) -> list[str]:
    """The paths of the tables that a stream has opened: upkeep touches no other, whatever is declared."""
    config, declared = project.config, project.config.stream(stream)
    connect = connector(config.deployment.object_store, config.home)
    paths = {
        stream: config.table_path(declared) if isinstance(declared.sink, DeltaSink) else None,
        dead_letters_of(stream): config.dead_letters_path(declared),
    }
    return [
        path
        for name, path in paths.items()
        if path is not None
        and (table := open_table_at(project, path)) is not None
        and StreamOutput(project.store, name, path, connect).is_own(table)
    ]


def has_unentered(project: Project, stream: str) -> bool:
    """Whether the table has an epoch that the ledger has not: the next replica reads its commit, and enters it."""
    table = open_table(project, stream)
    if table is None:
        return False
    with table_errors(table.table_uri):
        history = project.store.restores.current_history(stream)
        newest = table.transaction_version(writer(stream, history))
    last = project.store.ledger.last(stream)
    return newest is not None and newest > (-1 if last is None else last.epoch)


def table_epochs(table: DeltaTable, stream: str, *, limit: int | None = None) -> TableEpochs:
    """The epochs of a stream in a table, by its newest commits or all, and by its files.

    Commits that a restore undid do not count.
    """
    with table_errors(table.table_uri):
        return epochs_of(table.history(limit), live_files(table), stream)


def epochs_of(
    history: Sequence[Mapping[str, Any]], files: Sequence[LiveFile], stream: str
) -> TableEpochs:
    """The epochs of a stream in a history as Delta lists it, and in the files of the newest version."""
    in_force = list(epoch_commits(history, stream))
    commits = [commit for commit in in_force if not commit.whole_past]
    counts = Counter(commit.epoch for commit in commits)
    copied_through = max((commit.epoch for commit in in_force if commit.whole_past), default=-1)
    whole = any(line["version"] == 0 for line in history)
    merged: Counter[EpochRange] = Counter()
    for file in files:
        epochs = merged_epochs(file.path)
        if epochs is not None:
            merged[epochs] += file.rows
    return TableEpochs(
        first=copied_through + 1 if whole else min(counts, default=None),
        counts=counts,
        digests={commit.epoch: commit.digest for commit in commits},
        rows=rows_by_epoch(files),
        merged=merged,
        twice=tuple(epochs_twice(files)),
        others=sum(file.epochs is None for file in files),
    )


def merged_rows(
    project: Project, stream: str, table: DeltaTable, epochs: EpochRange
) -> Counter[int]:
    """The rows of epochs in the merged files that have some of these epochs, as far as those files say it."""
    path = project.config.table_path(stream)
    connect = connector(project.config.deployment.object_store, project.config.home)
    rows: Counter[int] = Counter()
    with table_errors(path):
        folder = TableFolder.open(path, connect)
        for file in live_files(table):
            within = merged_epochs(file.path)
            if within is not None and within.overlaps(epochs):
                index = read_footer(folder, file.path).index
                rows.update(dict(() if index is None else index.counts))
    return rows


def merged_digests(
    project: Project, stream: str, table: DeltaTable, *, since: int
) -> dict[EpochRange, str]:
    """The digest of each merged range that begins with an epoch or a later one; empty if it is unknown."""
    path = project.config.table_path(stream)
    connect = connector(project.config.deployment.object_store, project.config.home)
    with table_errors(path):
        folder = TableFolder.open(path, connect)
        files = {merged_epochs(file.path): file.path for file in live_files(table)}
        return {
            epochs: read_footer(folder, file).digest
            for epochs, file in sorted((epochs, file) for epochs, file in files.items() if epochs)
            if epochs.first >= since
        }


def newest_rows(table: DeltaTable, *, at_least: int) -> NewestRows:
    """Read whole files, the newest epoch first, until there are enough rows.

    The sink names files by epoch, so the order of names is the order of epochs.
    """
    with table_errors(table.table_uri):
        dataset = table.to_pyarrow_dataset()
        fragments = sorted(
            dataset.get_fragments(), key=lambda fragment: fragment.path, reverse=True
        )
        chosen, rows = 0, 0
        while chosen < len(fragments) and rows < at_least:
            rows += fragments[chosen].count_rows()
            chosen += 1
        parts = [part.to_table(schema=dataset.schema).to_pandas() for part in fragments[:chosen]]
    return NewestRows(
        frame=_concat(parts) if parts else dataset.schema.empty_table().to_pandas(),
        files=chosen,
        files_in_all=len(fragments),
    )


def _concat(parts: "list[pd.DataFrame]") -> "pd.DataFrame":
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


@contextmanager
def table_errors(path: str) -> Iterator[None]:
    """Raise errors of the table's storage as transient: it may be readable later."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        raise TransientError(
            f"the table {path} cannot be read: {error}", hint="check that its storage is reachable"
        ) from error
