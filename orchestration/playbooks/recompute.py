"""Computing an epoch again from a snapshot: for a proof, and for the trial of a migration."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.orchestration.playbooks.launch import driver_environment
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


def recompute(
    project: ProjectConfig,
    spec: ReplicaSpec,
    checkpoint: Path,
    epoch: int,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Recomputed:
    """Compute an epoch with the query of the stream; it decides and commits nothing."""
    spec.save()
    output = spec.folder / "driver.out"
    command = [
        sys.executable,
        "-m",
        "holdfast.streaming.query.recompute",
        "--folder",
        str(spec.folder),
    ]
    command += ["--checkpoint", str(checkpoint), "--epoch", str(epoch)]
    command += ["--patience", str(patience_seconds)]
    with output.open("wb") as sink:
        try:
            subprocess.run(  # noqa: S603 - the command is our own
                command,
                cwd=project.root,
                env=driver_environment(project, spec.stream),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that it can give way, see `holdfast.resources.priority`
                timeout=patience_seconds + START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TransientError(
                f"epoch {epoch} was not computed within {patience_seconds + START_SECONDS:.0f} s",
                hint="check the load of this host, and try again later",
            ) from error
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
