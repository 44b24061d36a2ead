"""A driver that computes an epoch again, without Spark."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from holdfast.resources.process import Launcher, ProcessHandle
from holdfast.streaming.spec import ReplicaSpec

GONE = ProcessHandle(pid=1, started_at=-1.0)


@dataclass
class SimulatedRecomputer:
    """Launches as `others` does, but a driver that recomputes has its result at once.

    `tried` are the computed epochs, each with the params of its stream.
    """

    others: Launcher
    rows: int
    digest: str
    tried: list[tuple[int, Mapping[str, object]]] = field(default_factory=list)

    def __call__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        output: Path,
        environment: Mapping[str, str],
    ) -> ProcessHandle:
        if "holdfast.streaming.query.recompute" not in command:
            return self.others(command, folder=folder, output=output, environment=environment)
        options = dict(pairwise(command))
        spec = ReplicaSpec.load(Path(options["--folder"]))
        self.tried.append((int(options["--epoch"]), spec.stream.params))
        result = {"rows": self.rows, "digest": self.digest}
        (spec.folder / "recomputed.json").write_text(json.dumps(result))
        return GONE
