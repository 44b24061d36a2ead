"""Whose process a replica is: known on its own host, by id and birth time."""

import socket

from ft_policies.health import Process
from resources.control_store.records import ReplicaRow
from resources.launcher import Launched

HOST = socket.gethostname()


def process_of(row: ReplicaRow) -> Launched | None:
    """The process of a replica, if it is known and on this host."""
    if row.host != HOST or row.pid is None or row.pid_started_at is None:
        return None
    return Launched(row.pid, row.pid_started_at)


def process_state(row: ReplicaRow | None) -> Process:
    """What the operating system says of a replica's process."""
    process = None if row is None else process_of(row)
    if process is None:
        return Process.UNKNOWN
    return Process.RUNNING if process.is_alive() else Process.GONE


def is_over(row: ReplicaRow) -> bool:
    """Whether a replica of this host has ended, by its row and by what the operating system says."""
    process = process_of(row)
    alive = process is not None and process.is_alive()
    return row.state.ended and row.host == HOST and not alive
