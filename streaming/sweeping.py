"""Sweeping: the checkpoints of incarnations that have ended are dropped; their logs stay.

That may be gigabytes, and takes the CPU of whoever does it. So a process of its own does it, at the
lowest priority: it keeps neither a recovery waiting nor a primary from its epochs.
"""

import os
from pathlib import Path

from resources.control.store import ControlStore
from resources.priority import LOWEST
from resources.process import ProcessHandle, is_over, launch


def sweep(store: ControlStore, stream: str) -> ProcessHandle | None:
    """Begin to drop what the replicas of a stream have left on this host; `None` if there is nothing."""
    folders = [
        str(entry)
        for row in store.replicas.of(stream, live=False)
        if is_over(row)
        for entry in _entries(Path(row.folder))
        if entry.is_dir()
    ]
    if not folders:
        return None
    return launch(
        ["rm", "-rf", "--", *folders],
        folder=Path("/"),
        output=Path(os.devnull),
        environment={},
        nice=LOWEST,
    )


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
