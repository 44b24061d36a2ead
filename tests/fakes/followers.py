"""A secondary that follows its switches at once, as a thread of the test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState
from holdfast.resources.control_store.store import ControlStore

LOOK_SECONDS = 0.01
# No replica sends heartbeats in these tests.
PATIENT = {"lease": "1h", "stuck_after": "1h", "start_within": "1h"}


def follow_switches(store: ControlStore, row: ReplicaRow) -> None:
    """Report the desired switches as observed; end the replica when all are off."""
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
        quiet_seconds=0.0,
    )


def _lags(row: ReplicaRow) -> bool:
    return row.desired != row.observed or row.observed_generation < row.generation


@contextmanager
def following(
    url: str, replica: str, act: Callable[[ControlStore, ReplicaRow], None] = follow_switches
) -> Iterator[None]:
    """Call `act` in a thread whenever the replica's observed switches lag behind the desired ones."""
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
