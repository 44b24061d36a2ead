"""What grows with the age of a stream: the files and the log of its table, and the input that must be kept for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.playbooks.compact import LARGE_FILE_BYTES
from holdfast.ft_policies.retention import (
    EpochFacts,
    InputAge,
    MarginVerdict,
    ReplayInput,
    first_epoch_to_keep,
    judge_margin,
)
from holdfast.observation.tables import open_table
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.compaction import TableCompaction
from holdfast.streaming.sinks.delta.files import LiveFile, live_files
from holdfast.streaming.sinks.delta.lineage import epoch_of
from holdfast.streaming.sources.base import Json
from holdfast.streaming.sources.files import FilesSource, files_read, none_assigned

COMMITS_SECONDS = 3600.0
"""The slowest commit of this time counts."""
_EPOCHS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGrowth:
    """The size of an output table, and its slowest recent commit if there was one.

    `mergeable` are the files that a compaction merges: small ones of a single epoch.
    """

    files: int
    mergeable: int
    log_bytes: int
    commit_seconds: float | None


def measure_table(project: Project, stream: str) -> TableGrowth | None:
    """Measure the output table of a stream; `None` if there is none."""
    config = project.config
    if not isinstance(config.stream(stream).sink, DeltaSink):
        return None
    table = open_table(project, stream)
    if table is None:
        return None
    connect = connector(config.deployment.object_store, config.home)
    since = project.store.now() - COMMITS_SECONDS
    commits = project.store.samples.series(stream, SampleName.COMMIT_SECONDS, since_at=since)
    files = live_files(table)
    return TableGrowth(
        files=len(files),
        mergeable=sum(map(_is_mergeable, files)),
        log_bytes=TableCompaction(config.table_path(stream), connect).log_bytes(),
        commit_seconds=max((sample.value for sample in commits), default=None),
    )


def _is_mergeable(file: LiveFile) -> bool:
    return epoch_of(file.path) is not None and file.size_bytes < LARGE_FILE_BYTES


def epoch_facts(project: Project, stream: str, snapshots: Sequence[int]) -> EpochFacts:
    """What may still need old epochs of a stream; `snapshots` are the epochs of those that are kept."""
    store, window = project.store, project.config.deployment.retention.restore_window
    last, restore = store.ledger.last(stream), store.restores.newest(stream)
    return EpochFacts(
        first_epoch=store.retention.floor(stream).first_epoch,
        last_entered=None if last is None else last.epoch,
        first_in_window=store.retention.first_epoch_since(stream, store.now() - window),
        oldest_snapshot=min(snapshots, default=None),
        replica_epochs=tuple(
            row.epoch for row in store.replicas.of(stream) if row.epoch is not None
        ),
        pending_restore=None if restore is None or restore.finished else restore.epoch,
    )


def find_replay_input(project: Project, stream: str) -> ReplayInput:
    """Find the oldest input that may be read again, by the catalogue of snapshots."""
    snapshots = [row.epoch for row in project.store.snapshots.of(stream)]
    first = first_epoch_to_keep(epoch_facts(project, stream, snapshots))
    return ReplayInput(
        first_epoch=first,
        recovery=_find_oldest(project, stream, max(snapshots, default=-1) + 1),
        restore=_find_oldest(project, stream, first + 1 if snapshots else first),
    )


def find_margin(project: Project, stream: str) -> MarginVerdict:
    """Whether the input that may be read again is there, and stays long enough."""
    source, replay = project.config.stream(stream).source, find_replay_input(project, stream)
    kept_for = source.kept_for if isinstance(source, FilesDeclaration) else None
    return judge_margin(replay, kept_for_seconds=kept_for)


def _find_oldest(project: Project, stream: str, epoch: int) -> InputAge | None:
    """The oldest file of the first epoch from this one on that has any: files are taken in their order."""
    declared = project.config.stream(stream).source
    last = project.store.epochs.last(stream)
    if not isinstance(declared, FilesDeclaration) or last is None:
        return None
    for first in range(epoch, last.epoch + 1, _EPOCHS_AT_ONCE):
        for row in project.store.epochs.between(stream, first, first + _EPOCHS_AT_ONCE - 1):
            files = files_read(row.input)
            if files:
                oldest = min(files, key=lambda file: int(file["changed_ns"]))
                age = project.store.now() - oldest["changed_ns"] / 1e9
                fault = open_files(project, declared).fault(oldest)
                return InputAge(
                    epoch=row.epoch, file=oldest["name"], seconds=age, fault=fault or ""
                )
    return None


def last_position(project: Project, stream: str) -> Json | None:
    """Where the input of the last epoch ends; `None` if there is none."""
    last = project.store.epochs.last(stream)
    return None if last is None else last.end


def open_files(project: Project, declared: FilesDeclaration) -> FilesSource:
    """The input folder of a stream, to look at: no epoch is proposed with it."""
    connect = connector(project.config.deployment.object_store, project.config.home)
    files, root = open_filesystem(project.config.resolve_path(declared.path), connect)
    return FilesSource(declared, pa.schema([]), files, root, none_assigned)
