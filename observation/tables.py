"""The Delta table of a stream, as audits read it: its history and its newest rows."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from holdfast.configs.sinks import DeltaSink
from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.tables.identity import dead_letters_of
from holdfast.resources.object_store.resolve import connector, delta_options
from holdfast.resources.project import Project
from holdfast.streaming.sinks.lineage import EpochRange, epoch_commits
from holdfast.streaming.sinks.output import StreamOutput
from holdfast.streaming.sinks.table_files import epochs_twice, live_files, merged_ranges

if TYPE_CHECKING:
    import pandas as pd

AUDITED_EPOCHS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEpochs:
    """How often each epoch is in the table's history, and with which digest.

    A history that does not reach back to the table's creation does not show epochs before `first`; nor
    does that of a fork, which has the epochs up to `copied_through` in one commit. The files show which epochs were
    `merged`, also those whose commits are no longer in the history, and which are in them `twice`.
    """

    counts: Mapping[int, int]
    digests: Mapping[int, str]
    whole: bool
    copied_through: int = -1
    merged: tuple[EpochRange, ...] = ()
    twice: tuple[int, ...] = ()

    def holds(self, epoch: int) -> bool:
        """Whether an epoch with rows is in the table."""
        return (
            epoch in self.counts
            or epoch <= self.copied_through
            or any(epoch in epochs for epochs in self.merged)
        )

    @property
    def first(self) -> int | None:
        """The oldest epoch that the history shows."""
        return self.copied_through + 1 if self.whole else min(self.counts, default=None)


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
    paths = {
        stream: config.table_path(declared) if isinstance(declared.sink, DeltaSink) else None,
        dead_letters_of(stream): config.dead_letters_path(declared),
    }
    return [
        path
        for name, path in paths.items()
        if path is not None
        and (table := open_table_at(project, path)) is not None
        and StreamOutput(project.store, name, path).is_own(table)
    ]


def table_epochs(table: DeltaTable, stream: str, *, limit: int | None = None) -> TableEpochs:
    """The epochs of a stream among the newest commits, or among all, without those that a restore undid."""
    with table_errors(table.table_uri):
        history = table.history(limit)
        files = live_files(table)
    commits = list(epoch_commits(history, stream))
    epochs = [commit for commit in commits if not commit.whole_past]
    return TableEpochs(
        counts=Counter(commit.epoch for commit in epochs),
        digests={commit.epoch: commit.digest for commit in epochs},
        whole=any(line["version"] == 0 for line in history),
        copied_through=max((commit.epoch for commit in commits if commit.whole_past), default=-1),
        merged=tuple(merged_ranges(files)),
        twice=tuple(epochs_twice(files)),
    )


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
