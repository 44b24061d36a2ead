"""The hourly retention: deletes what no recovery, restore or report needs any more."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.ft_policies.retention import EpochFacts, first_epoch_to_keep
from holdfast.ft_policies.snapshots import RetentionVerdict
from holdfast.orchestration.playbooks.compact import tables_of
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.process import HOST, is_over
from holdfast.resources.project import Project
from holdfast.resources.vault.prune import SUPERSEDED_SECONDS
from holdfast.streaming.sinks.log_archive import pack_log

REPLICA_LOGS = ("driver.out", "replica.log", "spark.log")


def prune_epochs(project: Project, stream: str, verdicts: Sequence[RetentionVerdict]) -> int:
    """Delete the epochs and ledger entries that are older than the restore window and every kept snapshot."""
    kept = [verdict.snapshot.epoch for verdict in verdicts if verdict.keep]
    facts = epoch_facts(project, stream, kept)
    return project.store.retention.prune_epochs(stream, before=first_epoch_to_keep(facts))


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


def prune_records(project: Project, *, streams: Sequence[str]) -> dict[str, int]:
    """Delete the old records of all streams; returns how many of each kind."""
    store, deployment = project.store, project.config.deployment
    now = store.now()
    before, measured = now - deployment.retention.records, now - deployment.samples.keep
    return {
        "samples": store.samples.prune(measured),
        "superseded_entries": store.retention.prune_superseded(before=now - SUPERSEDED_SECONDS),
        "dropped_snapshots": sum(  # the cost reports count them as long as the samples
            store.retention.prune_dropped_snapshots(name, before=measured) for name in streams
        ),
        **store.retention.prune_records(before=before),
        "replicas": _prune_replicas(project, before=before),
    }


def _prune_replicas(project: Project, *, before: float) -> int:
    """Delete the rows of replicas that ended long ago, and the folders that those on this host had."""
    rows = project.store.retention.ended_replicas(before=before)
    gone = [row for row in rows if row.host != HOST or is_over(row)]
    for row in gone:
        if row.host == HOST and Path(row.folder).name == row.id:
            shutil.rmtree(row.folder, ignore_errors=True)
    project.store.retention.forget_replicas([row.id for row in gone])
    return len(gone)


def pack_logs(project: Project, stream: str) -> int:
    """Pack old commits in the logs of the stream's tables; returns how many files."""
    before = project.clock.now() - project.config.deployment.retention.restore_window
    return sum(
        pack_log(table.path, table.connect, before=before)
        for table in tables_of(project, stream).values()
    )


def rotate_logs(project: Project, *, streams: Sequence[str]) -> list[str]:
    """Cut the logs of services and live replicas on this host that have grown beyond `retention.log_size`."""
    limit = project.config.deployment.retention.log_size
    rows = [row for name in streams for row in project.store.replicas.of(name)]
    return [str(log) for log in (*_service_logs(project), *_replica_logs(rows)) if _cut(log, limit)]


def _service_logs(project: Project) -> Iterator[Path]:
    return (project.config.home / "logs").glob("*.log")


def _replica_logs(rows: Sequence[ReplicaRow]) -> Iterator[Path]:
    return (Path(row.folder) / name for row in rows if row.host == HOST for name in REPLICA_LOGS)


def _cut(log: Path, limit: int) -> bool:
    """Move the content of a log to `<name>.1` if it is too long; its writer goes on with the same, empty file.

    All writers append, so what they write next is at the new end. A line that is written while the content is copied
    may be lost.
    """
    try:
        if log.stat().st_size <= limit:
            return False
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)
    except FileNotFoundError:
        return False
    return True
