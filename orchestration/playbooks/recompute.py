"""Computing an epoch again from a snapshot: for a proof, and for the trial of a migration."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.orchestration.playbooks.launch import driver_environment
from holdfast.orchestration.playbooks.waiting import POLL_SECONDS
from holdfast.resources.clock import wait_until
from holdfast.resources.control_store.records import SnapshotRow
from holdfast.resources.process import log_tail
from holdfast.resources.project import Project
from holdfast.streaming.spec import ReplicaSpec

PATIENCE_SECONDS = 300.0
START_SECONDS = 120.0  # Spark's own, before and after


def find_newest_provable(
    project: Project, stream: str, rows: Sequence[SnapshotRow]
) -> SnapshotRow | None:
    """The first of these snapshots after which an epoch was committed whose input is complete."""
    last, gaps = project.store.ledger.last(stream), project.store.gaps.of(stream)
    if last is None:
        return None
    before = (row for row in rows if row.epoch < last.epoch)
    return next((r for r in before if not any(gap.excuses(r.epoch + 1) for gap in gaps)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """The output of an epoch."""

    rows: int
    digest: str


def recompute(project: Project, spec: ReplicaSpec, checkpoint: Path, epoch: int) -> Recomputed:
    """Compute an epoch with the query of the stream; it decides and commits nothing."""
    spec.save()
    patience_seconds = PATIENCE_SECONDS + START_SECONDS
    process = project.launch(
        [
            *(sys.executable, "-m", "holdfast.streaming.query.recompute"),
            *("--folder", str(spec.folder), "--checkpoint", str(checkpoint)),
            *("--epoch", str(epoch), "--patience", str(PATIENCE_SECONDS)),
        ],
        folder=project.config.root,
        output=spec.folder / "driver.out",
        environment=driver_environment(project.config, spec.stream),
    )
    try:
        ended = wait_until(
            lambda: not process.is_alive(),
            clock=project.clock,
            patience_seconds=patience_seconds,
            poll_seconds=POLL_SECONDS,
        )
    finally:
        process.kill()
    if not ended:
        raise TransientError(
            f"epoch {epoch} was not computed within {patience_seconds:.0f} s",
            hint="check the load of this host, and try again later",
        )
    return _read(spec.folder)


def _read(folder: Path) -> Recomputed:
    """Read the result of the driver; an error has its cause, or the tail of its log."""
    result = folder / "recomputed.json"
    if not result.exists():
        raise PermanentError(
            f"the driver ended without a result: {log_tail(folder / 'driver.out')}",
            hint="check the free memory: one more driver needs as much as that of the stream",
        )
    fields = json.loads(result.read_text())
    if "digest" in fields:
        return Recomputed(**fields)
    kind = PermanentError if fields["lasts"] else TransientError
    raise kind(fields["error"], hint=fields["hint"])
