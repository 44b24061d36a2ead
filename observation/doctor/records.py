"""Epoch log, ledger and output table of a stream, compared by the doctor.

An epoch is in the table before it is in the ledger. So the ledger is read before the table, to find
entries that are not written, and again after it, to find written epochs without an entry.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from holdfast.configs.sinks import DeltaSink
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.doctor.facts import NOTHING, RecordFacts, TableCommit
from holdfast.observation.tables import AUDITED_EPOCHS, open_table_at, table_errors
from holdfast.resources.control_store.records import Epoch, LedgerEntry
from holdfast.resources.project import Project
from holdfast.streaming.sinks.lineage import EPOCH, ROWS, STREAM, epoch_commits, epoch_of, writer


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEpochs:
    """The newest epochs in the output table; its history does not reach back before `first`.

    `folders` are those that the table names in `data/`: the sink makes one for each epoch. `undone` are
    the epochs that a restore has undone, each with the replica that had committed it.
    """

    newest: int = NOTHING
    first: int = 0
    commits: Mapping[int, TableCommit]
    folders: frozenset[str] = frozenset()
    undone: frozenset[tuple[int, str]] = frozenset()


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
        folders = _rows_by_folder(table)
    rows = _rows_by_epoch(folders)
    newest = NOTHING if version is None else version
    lines = {int(line["version"]): line for line in history}
    commits = list(epoch_commits(history, stream))
    ours = {commit.epoch: lines[commit.version] for commit in commits if not commit.whole_past}
    copied = max((commit.epoch for commit in commits if commit.whole_past), default=-1)
    whole = any(line["version"] == 0 for line in history)
    counted = {commit.version for commit in commits}
    return WrittenEpochs(
        newest=newest,
        first=copied + 1 if whole else min(ours, default=newest + 1),
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
                rows=rows.get(epoch, int(line[ROWS]) if ROWS in line else None),
                digest=line.get("holdfast.digest", ""),
            )
            for epoch, line in ours.items()
        },
        folders=frozenset(folders),
    )


def _rows_by_folder(table: DeltaTable) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    files = pa.table(table.get_add_actions(flatten=True)).select(["path", "num_records"])
    for file in files.to_pylist():
        parts = file["path"].split("/")
        if parts[0] == "data" and len(parts) > 2:
            counts[parts[1]] += file["num_records"] or 0
    return dict(counts)


def _rows_by_epoch(rows: Mapping[str, int]) -> dict[int, int]:
    """The rows of each epoch whose files were not compacted with those of other epochs."""
    counts: dict[int, int] = defaultdict(int)
    for folder, count in rows.items():
        epoch = epoch_of(f"data/{folder}/")
        if epoch is not None:
            counts[epoch] += count
    return dict(counts)


def examine_records(project: Project, declared: StreamDeclaration) -> RecordFacts:
    """Compare epoch log, ledger and table, as far back as audits do."""
    store, stream = project.store, declared.name
    last = _number(store.ledger.last(stream))
    entries = store.ledger.between(stream, max(0, last - AUDITED_EPOCHS), last)
    written = examine_table(project, declared)
    last_decided = _number(store.epochs.last(stream))
    audit = store.ledger.audit(stream)
    undecided, unknown = store.auditing.undecided(stream), store.auditing.unknown(stream)
    commits = {} if written is None else written.commits
    without_entry = {*audit.holes, *audit.uncommitted}
    beyond = [epoch for epoch in commits if epoch > last_decided]
    return RecordFacts(
        first_kept=store.retention.floor(stream).first_epoch,
        last_decided=last_decided,
        last_entered=_number(store.ledger.last(stream)),
        newest_written=NOTHING if written is None else written.newest,
        undecided=tuple(undecided),
        unknown=tuple(sorted({*unknown, *beyond})),
        missing=tuple(epoch for epoch in audit.holes if epoch not in commits),
        unentered=tuple(commits[epoch] for epoch in sorted(commits) if epoch in without_entry),
        unwritten=() if written is None else _unwritten(entries, written),
    )


def _unwritten(entries: Sequence[LedgerEntry], written: WrittenEpochs) -> tuple[int, ...]:
    expected = [entry for entry in entries if entry.rows and entry.epoch >= written.first]
    return tuple(entry.epoch for entry in expected if entry.epoch not in written.commits)


def _number(last: Epoch | LedgerEntry | None) -> int:
    return NOTHING if last is None else last.epoch
