"""Reading epoch log, ledger and output table side by side.

An epoch is in the table before it is in the ledger. So the ledger is read before the table, to tell
what is entered and not written, and again after it, to tell what is written and not entered.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from holdfast.configs.sinks import DeltaSink
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.doctor.facts import NOTHING, RecordFacts, TableCommit
from holdfast.observation.tables import AUDITED_EPOCHS, reachable, table_at
from holdfast.resources.control_store.records import Epoch, LedgerEntry
from holdfast.resources.project import Project
from holdfast.streaming.sinks.lineage import EPOCH, STREAM, epoch_commits, writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The newest epochs in the output table; of those before `first` its history tells nothing.

    `folders` are those that the table names in `data/`: the sink makes one for each epoch. `undone` are
    the epochs that a restore has taken back, each with the replica that had committed it.
    """

    newest: int = NOTHING
    first: int = 0
    commits: Mapping[int, TableCommit]
    folders: frozenset[str] = frozenset()
    undone: frozenset[tuple[int, str]] = frozenset()


def examine_table(world: Project, declared: StreamDeclaration) -> Written | None:
    """What is written; `None` if the stream's sink is no table."""
    if not isinstance(declared.sink, DeltaSink):
        return None
    stream = declared.name
    table = table_at(world, world.config.table_path(declared))
    if table is None:
        return Written(commits={})
    with reachable(table.table_uri):
        history = table.history(2 * AUDITED_EPOCHS)
        version = table.transaction_version(
            writer(stream, world.store.restores.current_history(stream))
        )
        folders = _rows_by_folder(table)
    rows = _rows_by_epoch(folders)
    newest = NOTHING if version is None else version
    lines = {int(line["version"]): line for line in history}
    commits = list(epoch_commits(history, stream))
    ours = {one.epoch: lines[one.version] for one in commits if not one.whole_past}
    copied = max((one.epoch for one in commits if one.whole_past), default=-1)
    whole = any(line["version"] == 0 for line in history)
    counted = {one.version for one in commits}
    return Written(
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
                rows=rows.get(epoch),
                digest=line.get("holdfast.digest", ""),
            )
            for epoch, line in ours.items()
        },
        folders=frozenset(folders),
    )


def _rows_by_folder(table: DeltaTable) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    files = pa.table(table.get_add_actions(flatten=True)).select(["path", "num_records"])
    for file in files.to_pylist():
        parts = file["path"].split("/")
        if parts[0] == "data" and len(parts) > 2:
            found[parts[1]] += file["num_records"] or 0
    return dict(found)


def _rows_by_epoch(rows: Mapping[str, int]) -> dict[int, int]:
    """The rows of each epoch whose files were not merged with others'."""
    found: dict[int, int] = defaultdict(int)
    for folder, count in rows.items():
        epoch = folder.split("-", 1)[0]
        if epoch.isdigit():
            found[int(epoch)] += count
    return dict(found)


def examine_records(world: Project, declared: StreamDeclaration) -> RecordFacts:
    """Hold epoch log, ledger and table against each other, as far back as audits do."""
    store, stream = world.store, declared.name
    last = _number(store.ledger.last(stream))
    entries = store.ledger.between(stream, max(0, last - AUDITED_EPOCHS), last)
    written = examine_table(world, declared)
    last_decided = _number(store.epochs.last(stream))
    found = store.ledger.audit(stream)
    undecided, unknown = store.auditing.undecided(stream), store.auditing.unknown(stream)
    commits = {} if written is None else written.commits
    without_entry = {*found.holes, *found.uncommitted}
    beyond = [epoch for epoch in commits if epoch > last_decided]
    return RecordFacts(
        last_decided=last_decided,
        last_entered=_number(store.ledger.last(stream)),
        newest_written=NOTHING if written is None else written.newest,
        undecided=tuple(undecided),
        unknown=tuple(sorted({*unknown, *beyond})),
        missing=tuple(epoch for epoch in found.holes if epoch not in commits),
        unentered=tuple(commits[epoch] for epoch in sorted(commits) if epoch in without_entry),
        unwritten=() if written is None else _unwritten(entries, written),
    )


def _unwritten(entries: Sequence[LedgerEntry], written: Written) -> tuple[int, ...]:
    known = [entry for entry in entries if entry.rows and entry.epoch >= written.first]
    return tuple(entry.epoch for entry in known if entry.epoch not in written.commits)


def _number(last: Epoch | LedgerEntry | None) -> int:
    return NOTHING if last is None else last.epoch
