"""Measurements of a running replica: what Spark says of its batches, and what the machine gives."""

import logging
from collections.abc import Iterator
from typing import Any

import psutil
from pyspark.sql.streaming.query import StreamingQuery

from ft_policies.errors import TransientError
from resources.clock import SYSTEM_CLOCK, Clock
from resources.control_store.records import Sample
from resources.control_store.store import ControlStore

MACHINE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Sampler:
    """Writes one set of samples each time it is asked, at the epoch that finished last."""

    def __init__(
        self, store: ControlStore, stream: str, replica: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._store = store
        self._stream = stream
        self._replica = replica
        self._clock = clock
        self._process = psutil.Process()
        self._sent, self._received = _traffic()
        self._cpu_seconds, _ = _usage(self._process)
        self._machine_at = clock.monotonic()
        self._last_epoch = -1

    def once(self, name: str, value: float, epoch: int | None = None) -> None:
        """Write a single measurement."""
        self._write([self._sample(name, value, epoch)])

    def tend(self, *, secondary: bool) -> None:
        """Write, every few seconds, what this replica takes of its machine, whatever it does.

        What a secondary takes has names of its own: it is the price of a tier, not the stream's load.
        """
        now = self._clock.monotonic()
        elapsed_seconds = now - self._machine_at
        if elapsed_seconds < MACHINE_SECONDS:
            return
        self._machine_at = now
        prefix = "secondary_" if secondary else ""
        try:
            values = list(self._machine(elapsed_seconds))
        except Exception:
            log.exception("nobody knows what this replica takes")
            return
        self._write([self._sample(f"{prefix}{name}", value, None) for name, value in values])

    def sample(self, query: StreamingQuery, *, elapsed_seconds: float) -> None:
        """Write what changed since the last time, `elapsed_seconds` ago; never at a stream's cost."""
        try:
            self._sample_all(query, elapsed_seconds)
        except Exception:
            log.exception("no samples this time")

    def _sample_all(self, query: StreamingQuery, elapsed_seconds: float) -> None:
        values: dict[str, float] = {}
        recent: Any = query.recentProgress
        new = [progress for progress in recent if progress["batchId"] > self._last_epoch]
        # Spark's own rate counts from look to look for input, and so means little.
        values["input_rows_per_second"] = sum(p["numInputRows"] for p in new) / elapsed_seconds
        if new:
            self._last_epoch = int(new[-1]["batchId"])
            values.update(spark_values(new[-1]))
            values.update(self._output(self._last_epoch, values["batch_triggerExecution_seconds"]))
        epoch = self._last_epoch if new else None
        self._write([self._sample(name, value, epoch) for name, value in values.items()])

    def _machine(self, elapsed_seconds: float) -> Iterator[tuple[str, float]]:
        cpu, rss = _usage(self._process)
        yield "cpu_cores", max(cpu - self._cpu_seconds, 0.0) / elapsed_seconds
        yield "rss_bytes", float(rss)
        self._cpu_seconds = cpu
        sent, received = _traffic()
        yield "host_network_sent_bytes_per_second", max(sent - self._sent, 0) / elapsed_seconds
        yield (
            "host_network_received_bytes_per_second",
            max(received - self._received, 0) / elapsed_seconds,
        )
        self._sent, self._received = sent, received

    def _output(self, epoch: int, batch_seconds: float) -> Iterator[tuple[str, float]]:
        try:
            entry = self._store.ledger.get(self._stream, epoch)
        except TransientError:
            return
        if entry is not None:
            yield "output_rows", float(entry.rows)
            yield "output_rows_per_second", entry.rows / max(batch_seconds, 0.001)

    def _sample(self, name: str, value: float, epoch: int | None) -> Sample:
        return Sample(
            stream=self._stream, replica=self._replica, name=name, value=value, epoch=epoch
        )

    def _write(self, samples: list[Sample]) -> None:
        try:
            self._store.samples.write(samples)
        except TransientError as error:
            log.warning("%s samples are lost: %s", len(samples), error)


def spark_values(progress: Any) -> dict[str, float]:
    """The numbers of a StreamingQueryProgress that the models need."""
    operators = progress["stateOperators"]
    values = {
        "input_rows": float(progress["numInputRows"]),
        "processed_rows_per_second": float(progress["processedRowsPerSecond"]),
        "state_rows": float(sum(op["numRowsTotal"] for op in operators)),
        "state_bytes": float(sum(op["memoryUsedBytes"] for op in operators)),
    }
    for phase, millis in progress["durationMs"].items():
        values[f"batch_{phase}_seconds"] = millis / 1000.0
    return values


def _traffic() -> tuple[int, int]:
    """Bytes that the host has sent and received, without what it said to itself: nobody bills that."""
    about = psutil.net_if_stats()
    wires = [
        counters
        for name, counters in psutil.net_io_counters(pernic=True).items()
        if name not in about or "loopback" not in about[name].flags.split(",")
    ]
    return sum(one.bytes_sent for one in wires), sum(one.bytes_recv for one in wires)


def _usage(process: psutil.Process) -> tuple[float, int]:
    """CPU seconds and resident bytes of the driver, its JVM and its workers."""
    cpu, rss = 0.0, 0
    for member in [process, *process.children(recursive=True)]:
        try:
            times, memory = member.cpu_times(), member.memory_info()
        except psutil.NoSuchProcess:
            continue
        cpu += times.user + times.system
        rss += memory.rss
    return cpu, rss
