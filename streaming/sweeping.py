"""Sweeping: the checkpoints of incarnations that have ended are dropped; their logs stay.

That may be gigabytes, and takes the CPU of whoever does it. So a replica does it beside its start, at
the lowest priority, where it keeps neither a recovery waiting nor the primary from its epochs.
"""

import logging
import os
import shutil
import threading
from pathlib import Path

from ft_policies.errors import HoldfastError
from resources.control.store import ControlStore
from streaming.priority import LOWEST
from streaming.processes import is_over

log = logging.getLogger(__name__)


def sweep(store: ControlStore, stream: str) -> None:
    """Drop what the replicas of a stream have left on this host."""
    for row in store.replicas.of(stream, live=False):
        if is_over(row):
            for entry in _entries(Path(row.folder)):
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)


def sweep_beside(store: ControlStore, stream: str) -> threading.Thread:
    """The same in a thread that gives way to all others; what it leaves is for the next."""

    def run() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
        try:
            sweep(store, stream)
        except HoldfastError as error:
            log.warning("what earlier replicas have left is still there: %s", error)

    thread = threading.Thread(target=run, name="sweep", daemon=True)
    thread.start()
    return thread


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
