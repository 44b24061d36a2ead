"""Epoch log, ledger and output table of a stream, compared by the doctor.

An epoch is in the table before it is in the ledger. So the ledger is read before the table, to find
entries that are not written, and again after it, to find written epochs without an entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.doctor.facts import NOTHING, RecordFacts, TableCommit
from holdfast.observation.tables import (
    AUDITED_EPOCHS,
    TableEpochs,
    epochs_of,
    open_table_at,
    table_errors,
)
from holdfast.resources.control_store.records import Epoch, LedgerEntry
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.files import LiveFile, live_files
from holdfast.streaming.sinks.delta.lineage import EPOCH, ROWS, STREAM, epoch_commits, writer


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEpochs:
    """The newest epochs in the output table; its history does not reach back before `first`.

    `epochs` says which older ones its files have. `folders` are those that the table names in `data/`: the sink makes
    one for each epoch. `undone` are the epochs that a restore has undone, each with the replica that had committed it.
    """

    newest: int = NOTHING
    first: int = 0
    commits: Mapping[int, TableCommit]
    epochs: TableEpochs | None = None
    folders: frozenset[str] = frozenset()
    undone: frozenset[tuple[int, str]] = frozenset()

    def holds(self, epoch: int) -> bool:
        """Whether an epoch with rows is in the table, as far as that is known."""
        if epoch in self.commits:
            return True
        return epoch < self.first and self.epochs is not None and self.epochs.holds(epoch)

    def has_own(self, epoch: int) -> bool:
        """Whether the table has a commit of the epoch, or files of its own from before the history."""
        if epoch in self.commits:
            return True
        return epoch < self.first and self.epochs is not None and epoch in self.epochs.rows

    def commit_of(self, epoch: int) -> TableCommit:
        """What is known of an epoch that the table has: little, if its commit is no longer in the log."""
        unknown = TableCommit(epoch=epoch, replica="", token=0, rows=None, digest="")
        return self.commits.get(epoch, unknown)


def examine_table(project: Project, declared: StreamDeclaration) -> WrittenEpochs | None:
    """Read the epochs in the table; `None` if the sink is not a table."""
    if not isinstance(declared.sink, DeltaSink):
        return None
    stream = declared.name
    table = open_table_at(project, project.config.table_path(declared))
    if table is None:
        return WrittenEpochs(commits={})
    with table_errors(table.table_uri):
        history = table.history(2 * AUDITED_EPOCHS)
        version = table.transaction_version(
            writer(stream, project.store.restores.current_history(stream))
        )
        files = live_files(table)
    epochs = epochs_of(history, files, stream)
    newest = NOTHING if version is None else version
    lines = {int(line["version"]): line for line in history}
    commits = list(epoch_commits(history, stream))
    ours = {commit.epoch: lines[commit.version] for commit in commits if not commit.whole_past}
    counted = {commit.version for commit in commits}
    return WrittenEpochs(
        newest=newest,
        first=newest + 1 if epochs.first is None else epochs.first,
        undone=frozenset(
            (int(line[EPOCH]), str(line.get("holdfast.replica")))
            for number, line in lines.items()
            if number not in counted and line.get(STREAM) == stream and EPOCH in line
        ),
        commits={
            epoch: TableCommit(
                epoch=epoch,
                replica=line.get("holdfast.replica", ""),
                token=int(line.get("holdfast.token", 0)),
                rows=epochs.rows.get(epoch, int(line[ROWS]) if ROWS in line else None),
                digest=line.get("holdfast.digest", ""),
            )
            for epoch, line in ours.items()
        },
        epochs=epochs,
        folders=frozenset(_folders(files)),
    )


def _folders(files: Sequence[LiveFile]) -> Iterator[str]:
    for file in files:
        parts = file.path.split("/")
        if parts[0] == "data" and len(parts) > 2:
            yield parts[1]


def examine_records(project: Project, declared: StreamDeclaration) -> RecordFacts:
    """Compare epoch log, ledger and table, as far back as audits do."""
    store, stream = project.store, declared.name
    last = _number(store.ledger.last(stream))
    entries = store.ledger.between(stream, max(0, last - AUDITED_EPOCHS), last)
    written = examine_table(project, declared)
    last_decided = _number(store.epochs.last(stream))
    audit = store.ledger.audit(stream)
    undecided, unknown = store.auditing.find_undecided(stream), store.auditing.find_unknown(stream)
    commits = {} if written is None else written.commits
    without_entry = {*audit.holes, *audit.uncommitted}
    written_epochs = {epoch for epoch in without_entry if written and written.has_own(epoch)}
    beyond = [epoch for epoch in commits if epoch > last_decided]
    return RecordFacts(
        first_kept=store.retention.floor(stream).first_epoch,
        last_decided=last_decided,
        last_entered=_number(store.ledger.last(stream)),
        newest_written=NOTHING if written is None else written.newest,
        undecided=tuple(undecided),
        unknown=tuple(sorted({*unknown, *beyond})),
        missing=tuple(epoch for epoch in audit.holes if epoch not in written_epochs),
        unentered=() if written is None else tuple(map(written.commit_of, sorted(written_epochs))),
        unwritten=() if written is None else _unwritten(entries, written),
    )


def _unwritten(entries: Sequence[LedgerEntry], written: WrittenEpochs) -> tuple[int, ...]:
    return tuple(entry.epoch for entry in entries if entry.rows and not written.holds(entry.epoch))


def _number(last: Epoch | LedgerEntry | None) -> int:
    return NOTHING if last is None else last.epoch
