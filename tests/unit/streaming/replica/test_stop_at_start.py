"""A replica that is asked to leave while its Spark session still starts ends at once, with its JVM."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from holdfast.ft_policies.tiers import OFF
from holdfast.resources.control_store.records import ReplicaRow, ReplicaState, Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import ProcessHandle
from holdfast.streaming.gate import Gate
from holdfast.streaming.replica.process import EXIT_STOPPED
from holdfast.streaming.spark.session import settings_file
from tests.builders.control_rows import register
from tests.builders.replicas import REPLICA, a_spec
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(90)  # a process of its own, which imports all of a replica
WITHIN_SECONDS = 30.0

# Its session never starts, as one whose Spark master does not answer; nor does its object store.
DRIVER = """
import pathlib, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.replica.process import ReplicaProcess
from holdfast.streaming.spec import ReplicaSpec
spec = ReplicaSpec.load(pathlib.Path(sys.argv[1]))
stop_requested = threading.Event()
if sys.argv[2] == "signal":
    stop_requested.set()
jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
(spec.folder / "jvm").write_text(str(jvm.pid))
with ThreadPoolExecutor(1) as pool, ControlStore.open(spec.control_url) as store:
    session = pool.submit(threading.Event().wait)
    sys.exit(ReplicaProcess(spec, store, session, stop_requested).run())
"""


@pytest.mark.parametrize(("slot", "asked_by"), [(Slot.PRIMARY, "row"), (Slot.SECONDARY, "signal")])
def test_it_reports_its_end_and_leaves_no_process(
    tmp_path: Path, slot: Slot, asked_by: str
) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        register(store, REPLICA, slot=slot)
        spec = a_spec(tmp_path, store).model_copy(update={"slot": slot})
        spec.save()
        settings_file(spec).touch()
        driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(spec.folder), asked_by])
        handle = ProcessHandle.of(driver.pid)
        try:
            if asked_by == "row":
                wait_until(
                    lambda: _row(store).heartbeat_at is not None, within_seconds=WITHIN_SECONDS
                )
                store.replicas.desire(REPLICA, OFF)
            assert driver.wait(WITHIN_SECONDS) == EXIT_STOPPED
        finally:
            handle.kill()
            driver.wait()
        row = _row(store)
    assert (row.state, row.reason) == (ReplicaState.STOPPED, "stop requested")
    assert not Gate(spec.folder).get().open
    assert not settings_file(spec).exists(), "it may have secrets"
    jvm = int((spec.folder / "jvm").read_text())
    wait_until(lambda: not psutil.pid_exists(jvm))


def _row(store: ControlStore) -> ReplicaRow:
    row = store.replicas.get(REPLICA)
    assert row is not None
    return row
