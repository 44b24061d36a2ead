"""A secondary that follows its switches at once, as a thread of the test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState
from holdfast.resources.control_store.store import ControlStore

LOOK_SECONDS = 0.01
PATIENT = {"lease": "1h", "stuck_after": "1h", "start_within": "1h"}  # nobody beats in these tests


def obey(store: ControlStore, row: ReplicaRow) -> None:
    """Have on what is desired; leave when nothing is."""
    if not row.desired.on():
        store.replicas.end(row.id, ReplicaState.STOPPED, "asked to", by=EndedBy.REPLICA)
        return
    store.replicas.heartbeat(
        row.id,
        state=ReplicaState.RUNNING,
        observed=row.desired,
        observed_generation=row.generation,
        snapshot_served=0,
        epoch=row.epoch,
    )


def _lags(row: ReplicaRow) -> bool:
    return row.desired != row.observed or row.observed_generation < row.generation


@contextmanager
def following(
    url: str, replica: str, act: Callable[[ControlStore, ReplicaRow], None] = obey
) -> Iterator[None]:
    """Let `act` answer each time when the replica has not seen or done what is desired."""
    over = threading.Event()

    def follow() -> None:
        with ControlStore.open(url) as store:
            while not over.wait(LOOK_SECONDS):
                row = store.replicas.get(replica)
                if row is not None and not row.state.ended and _lags(row):
                    act(store, row)

    thread = threading.Thread(target=follow, name=f"{Path(url).name}-{replica}")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5.0)
