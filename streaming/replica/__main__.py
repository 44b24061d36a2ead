"""One replica of a stream: `python -m holdfast.streaming.replica --folder FOLDER`.

It is started detached and runs until a stop is requested, it loses its place, or it fails permanently.
Its folder and the control store have all that it needs to know.

Java takes seconds to start, and so do the imports of a replica. So this module first imports only what
starts Java, and the rest while Java starts.
"""

import argparse
import logging
import logging.handlers
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.resources import priority
from holdfast.resources.control_store.records import Slot
from holdfast.resources.private import keep_private
from holdfast.streaming.spark.session import start_session
from holdfast.streaming.spec import ReplicaSpec

LOG_BYTES = 10_000_000
LOG_FILES = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the replica of a folder until its end, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.streaming.replica", description=__doc__
    )
    parser.add_argument("--folder", type=Path, required=True, help="the replica's own folder")
    keep_private()
    spec = ReplicaSpec.load(parser.parse_args(arguments).folder)
    _log_to(spec.folder / "replica.log")
    stop_requested = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop_requested.set())
    if spec.slot is Slot.SECONDARY:
        # Before anything is started: threads and children inherit it.
        priority.lower(spec.nice, seconds=spec.nice_seconds)
    with ThreadPoolExecutor(1, thread_name_prefix="session") as pool:
        session = pool.submit(start_session, spec)
        from holdfast.resources.control_store.store import ControlStore
        from holdfast.streaming.replica.process import ReplicaProcess

        with ControlStore.open(spec.control_url, in_replica=True) as store:
            return ReplicaProcess(spec, store, session, stop_requested).run()


def log_formatter() -> logging.Formatter:
    """Format a line of the log, with the time in UTC: hosts of one stream may have several zones."""
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    formatter.default_msec_format = "%s.%03dZ"
    return formatter


def _log_to(path: Path) -> None:
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES)
    handler.setFormatter(log_formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
