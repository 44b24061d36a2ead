"""The processes of a detached service: everything in the session that its first process opened.

A session is the right net. Dagster's own children (web server, daemon, code servers, run workers)
stay in it; a replica that a run started opened a session of its own, and must live on.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from resources.launcher import Launched


@dataclass(frozen=True, slots=True)
class ServiceSession:
    """A session, known by its leader and by a variable that all its processes have inherited.

    The variable guards against a stranger: the leader's process id may be in use again.
    """

    leader: Launched
    marker: Mapping[str, str]

    def members(self) -> list[psutil.Process]:
        """All processes of the session that run now."""
        return [process for process in psutil.process_iter() if self._has(process)]

    def end(self, *, patience_seconds: float) -> bool:
        """Ask the leader to end, then end whatever is left; whether nothing is left."""
        self.leader.terminate(wait_seconds=patience_seconds, kill=False)
        left = self.members()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in left:
                _signal(process, number)
            psutil.wait_procs(left, timeout=5.0)
            left = self.members()
        return not left

    def _has(self, process: psutil.Process) -> bool:
        try:
            if os.getsid(process.pid) != self.leader.pid:
                return False
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            inherited = process.environ()
        except (psutil.Error, OSError):
            return False
        return all(inherited.get(name) == value for name, value in self.marker.items())


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
