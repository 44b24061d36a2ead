"""Reading the output table: which epochs it has, by whom, and how many rows of each."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from assets.tables import AUDITED_EPOCHS, reachable, table_at
from configs.sinks import DeltaSink
from configs.stream import StreamDeclaration
from ft_policies.doctor.facts import NOTHING, TableCommit
from resources.project import Project
from streaming.sinks.lineage import EPOCH, STREAM, epoch_commits, writer


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
        version = table.transaction_version(writer(stream, world.store.histories.current(stream)))
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
