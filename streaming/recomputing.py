"""Having an epoch computed again from a restored checkpoint, by a driver of its own, without sending anything.

It needs the stream's code and Spark conf, and neither must be mixed with those of whoever asks.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from configs.project import Project
from ft_policies.errors import PermanentError, TransientError
from resources.launcher import last_words
from streaming.launching import driver_environment
from streaming.spec import ReplicaSpec

PATIENCE_SECONDS = 300.0
START_SECONDS = 120.0  # Spark's own, before and after


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """What came out."""

    rows: int
    digest: str


def recompute(
    project: Project,
    spec: ReplicaSpec,
    checkpoint: Path,
    epoch: int,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Recomputed:
    """What the stream's own query makes of an epoch; it decides none, and commits none."""
    spec.save()
    output = spec.folder / "driver.out"
    command = [sys.executable, "-m", "streaming.query.recompute", "--folder", str(spec.folder)]
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
                start_new_session=True,  # so that it can give way, see `session_priority`
                timeout=patience_seconds + START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TransientError(
                f"epoch {epoch} was not computed in time",
                hint="is the machine busy? Try again later",
            ) from error
    return _read(spec.folder)


def _read(folder: Path) -> Recomputed:
    """What the driver has written down, or its last words if it came to nothing."""
    result = folder / "recomputed.json"
    if not result.exists():
        raise PermanentError(
            f"the driver ended without a result: {last_words(folder / 'driver.out')}",
            hint="is there memory for one more driver, as large as the stream's?",
        )
    told = json.loads(result.read_text())
    if "digest" in told:
        return Recomputed(**told)
    kind = PermanentError if told["lasts"] else TransientError
    raise kind(told["error"], hint=told["hint"])
