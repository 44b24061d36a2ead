"""Long writes of one stream beside the heartbeats of another, in a process of its own, on SQLite."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.resources.control_store.records import Sample, Slot
from holdfast.resources.control_store.schema import epochs, ledger
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_proposal, an_entry, register

pytestmark = pytest.mark.integration

EPOCHS = 60_000
SOON_SECONDS = 1.5  # half a lease; 0.2 s on a quiet machine, and without pauses 0.7 to 2 s
LATER = 1e12
RENEW_UNTIL_ASKED = """
import select, sys
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import ReplicaState
from holdfast.resources.control_store.store import ControlStore

with ControlStore.open(sys.argv[1]) as store:
    lease, longest = store.leases.take("other", "r1", 3.0), 0.0
    print("beating", flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        began = SYSTEM_CLOCK.monotonic()
        try:
            lease = store.leases.renew(lease, 3.0) or lease
        except TransientError:
            pass
        longest = max(longest, SYSTEM_CLOCK.monotonic() - began)
print(longest)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        fill(store)
        register(store, "r1", slot=Slot.PRIMARY, stream="other")
        yield store


def fill(store: ControlStore) -> None:
    """The past of a stream: as many rows as a day of epochs, with the input of several files each."""
    proposal, entry = a_proposal(0), an_entry(0)
    files = [f"part-{number:05}-a-name-as-long-as-those-of-spark" for number in range(20)]
    epoch, entered = asdict(proposal), asdict(entry)
    numbers = range(EPOCHS)
    with store._database.write() as connection:
        decided = epoch | {"input": {"paths": files}, "decided_at": 1.0}
        connection.execute(sa.insert(epochs), [decided | {"epoch": number} for number in numbers])
        connection.execute(sa.insert(ledger), [entered | {"epoch": number} for number in numbers])
    store.samples.write(
        [
            Sample(stream="words", replica="r1", name="lag", value=1.0, at=float(at))
            for at in numbers
        ]
    )


@contextmanager
def beating(store: ControlStore) -> Iterator[Callable[[], float]]:
    """A replica of another stream; ask once for the longest time that a renewal of its lease took."""
    command = [sys.executable, "-c", RENEW_UNTIL_ASKED, store.url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "beating\n"
            yield lambda: float(process.communicate("stop\n")[0])
        finally:
            process.kill()


def fork(store: ControlStore) -> None:
    store.forks.copy("words", into="trial", through_epoch=EPOCHS)


def restore(store: ControlStore) -> None:
    wanted = store.restores.request("words", epoch=0, snapshot=None, why="", run="run")
    assert store.restores.begin(wanted) == EPOCHS - 1
    store.restores.finish(wanted)


def prune(store: ControlStore) -> None:
    assert store.retention.prune_epochs("words", before=EPOCHS - 1) == EPOCHS - 1
    assert store.samples.prune(LATER) == EPOCHS


def test_heartbeats_of_other_streams_go_on_during_long_writes(store: ControlStore) -> None:
    with beating(store) as longest_renewal_seconds:
        fork(store)
        restore(store)
        prune(store)
        assert longest_renewal_seconds() < SOON_SECONDS
