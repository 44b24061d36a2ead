"""Reading a stream's Delta table as an auditor does: its history, its newest rows, its orphans."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.object_store.resolve import connector, delta_options
from holdfast.resources.project import Project
from holdfast.streaming.sinks.lineage import epoch_commits

if TYPE_CHECKING:
    import pandas as pd

AUDITED_EPOCHS = 5_000
ORPHAN_HOURS = 7 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEpochs:
    """How often each epoch is in the table's history, and with which digest.

    A history that does not reach back to the table's creation says nothing of epochs before `first`;
    nor does that of a fork, which has the epochs up to `copied_through` in one commit.
    """

    counts: Mapping[int, int]
    digests: Mapping[int, str]
    whole: bool
    copied_through: int = -1

    @property
    def first(self) -> int | None:
        """The oldest epoch that the history can answer for."""
        return self.copied_through + 1 if self.whole else min(self.counts, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRows:
    """The newest files of a table as one frame."""

    frame: "pd.DataFrame"
    files: int
    files_in_all: int


def open_table(world: Project, stream: str) -> DeltaTable | None:
    """The stream's table as it is now; `None` before its first epoch."""
    return table_at(world, world.config.table_path(stream))


def table_at(world: Project, path: str) -> DeltaTable | None:
    """A Delta table as it is now; `None` if there is none."""
    connect = connector(world.config.deployment.object_store, world.config.home)
    try:
        with reachable(path):
            return DeltaTable(path, storage_options=delta_options(path, connect))
    except TableNotFoundError:
        return None


def table_epochs(table: DeltaTable, stream: str, *, limit: int | None = None) -> TableEpochs:
    """The epochs of a stream among the newest commits, or among all; none that a restore has undone."""
    with reachable(table.table_uri):
        history = table.history(limit)
    commits = list(epoch_commits(history, stream))
    epochs = [one for one in commits if not one.whole_past]
    return TableEpochs(
        counts=Counter(one.epoch for one in epochs),
        digests={one.epoch: one.digest for one in epochs},
        whole=any(line["version"] == 0 for line in history),
        copied_through=max((one.epoch for one in commits if one.whole_past), default=-1),
    )


def newest_rows(table: DeltaTable, *, at_least: int) -> NewestRows:
    """Whole files from the newest epoch on, until there are enough rows.

    The sink names files by epoch, so the order of names is the order of epochs.
    """
    with reachable(table.table_uri):
        dataset = table.to_pyarrow_dataset()
        fragments = sorted(dataset.get_fragments(), key=lambda one: one.path, reverse=True)
        chosen, rows = 0, 0
        while chosen < len(fragments) and rows < at_least:
            rows += fragments[chosen].count_rows()
            chosen += 1
        parts = [one.to_table(schema=dataset.schema).to_pandas() for one in fragments[:chosen]]
    return NewestRows(
        frame=_joined(parts) if parts else dataset.schema.empty_table().to_pandas(),
        files=chosen,
        files_in_all=len(fragments),
    )


def drop_orphans(table: DeltaTable, *, dry_run: bool = False) -> list[str]:
    """Delete files that were staged and never committed, once no replica can still commit them.

    Vacuum writes to the table's log even if it finds nothing, so it is asked first.
    """
    with reachable(table.table_uri):
        if not dry_run:
            table.cleanup_metadata()
        found = table.vacuum(ORPHAN_HOURS, dry_run=True, full=True)
        if found and not dry_run:
            return table.vacuum(ORPHAN_HOURS, dry_run=False, full=True)
        return found


def _joined(parts: "list[pd.DataFrame]") -> "pd.DataFrame":
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


@contextmanager
def reachable(path: str) -> Iterator[None]:
    """Storage that cannot be read now may be later."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        raise TransientError(
            f"the table {path} cannot be read: {error}", hint="is its storage reachable?"
        ) from error
