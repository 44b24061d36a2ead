"""Measurements of a running replica: the progress of its batches, and its use of the machine."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import psutil
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore

MACHINE_SECONDS = 5.0
SECONDARY_NAMES = {
    SampleName.CPU_CORES: SampleName.SECONDARY_CPU_CORES,
    SampleName.RSS_BYTES: SampleName.SECONDARY_RSS_BYTES,
    SampleName.HOST_SENT_BYTES_PER_SECOND: SampleName.SECONDARY_HOST_SENT_BYTES_PER_SECOND,
    SampleName.HOST_RECEIVED_BYTES_PER_SECOND: SampleName.SECONDARY_HOST_RECEIVED_BYTES_PER_SECOND,
}
PHASE_NAMES: Mapping[str, SampleName] = {
    "triggerExecution": SampleName.BATCH_SECONDS,
    "latestOffset": SampleName.BATCH_LATEST_OFFSET_SECONDS,
    "getOffset": SampleName.BATCH_GET_OFFSET_SECONDS,
    "walCommit": SampleName.BATCH_WAL_COMMIT_SECONDS,
    "getBatch": SampleName.BATCH_GET_BATCH_SECONDS,
    "queryPlanning": SampleName.BATCH_QUERY_PLANNING_SECONDS,
    "addBatch": SampleName.BATCH_ADD_BATCH_SECONDS,
    "commitOffsets": SampleName.BATCH_COMMIT_OFFSETS_SECONDS,
}

Network: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The counters and the properties of a host's network interfaces, as psutil gives them."""

log = logging.getLogger(__name__)


def read_network() -> Network:
    """Read the interfaces of this host."""
    return psutil.net_io_counters(pernic=True), psutil.net_if_stats()


class Sampler:
    """Writes the samples of one replica; a sample that cannot be written is lost, never an error."""

    def __init__(
        self,
        store: ControlStore,
        stream: str,
        replica: str,
        clock: Clock = SYSTEM_CLOCK,
        network: Callable[[], Network] = read_network,
    ) -> None:
        self._store = store
        self._stream = stream
        self._replica = replica
        self._clock = clock
        self._process = psutil.Process()
        self._network = network
        self._sent, self._received = _billed_traffic(network())
        self._cpu_seconds, _ = _usage(self._process)
        self._machine_at = clock.monotonic()
        self._last_epoch = -1

    def record(self, name: SampleName, value: float, epoch: int | None = None) -> None:
        self._write([self._sample(name, value, epoch)])

    def sample_machine(self, *, secondary: bool) -> None:
        """Write the replica's use of its machine, if the last time was some seconds ago.

        The use of a secondary has names of its own: it is the price of a tier, not the stream's load.
        """
        now = self._clock.monotonic()
        elapsed_seconds = now - self._machine_at
        if elapsed_seconds < MACHINE_SECONDS:
            return
        self._machine_at = now
        try:
            usage = list(self._measure_machine(elapsed_seconds))
        except Exception:
            log.exception("machine usage not sampled: unexpected error")
            return
        names = SECONDARY_NAMES if secondary else {name: name for name in SECONDARY_NAMES}
        self._write([self._sample(names[name], value, None) for name, value in usage])

    def sample(self, query: StreamingQuery, *, elapsed_seconds: float) -> None:
        """Write the progress since the last call, `elapsed_seconds` ago.

        Any error is logged only: a measurement must not stop a stream.
        """
        try:
            self._sample_progress(query, elapsed_seconds)
        except Exception:
            log.exception("query progress not sampled: unexpected error")

    def _sample_progress(self, query: StreamingQuery, elapsed_seconds: float) -> None:
        values: dict[SampleName, float] = {}
        recent: Any = query.recentProgress
        new = [progress for progress in recent if progress["batchId"] > self._last_epoch]
        # Spark's own rate counts from trigger to trigger, even where there was no input.
        rows = sum(progress["numInputRows"] for progress in new)
        values[SampleName.INPUT_ROWS_PER_SECOND] = rows / elapsed_seconds
        if new:
            self._last_epoch = int(new[-1]["batchId"])
            values.update(spark_values(new[-1]))
            batch_seconds = values[SampleName.BATCH_SECONDS]
            values.update(self._measure_output(self._last_epoch, batch_seconds))
        epoch = self._last_epoch if new else None
        self._write([self._sample(name, value, epoch) for name, value in values.items()])

    def _measure_machine(self, elapsed_seconds: float) -> Iterator[tuple[SampleName, float]]:
        cpu, rss = _usage(self._process)
        yield SampleName.CPU_CORES, max(cpu - self._cpu_seconds, 0.0) / elapsed_seconds
        yield SampleName.RSS_BYTES, float(rss)
        self._cpu_seconds = cpu
        sent, received = _billed_traffic(self._network())
        sent_rate = max(sent - self._sent, 0) / elapsed_seconds
        yield SampleName.HOST_SENT_BYTES_PER_SECOND, sent_rate
        received_rate = max(received - self._received, 0) / elapsed_seconds
        yield SampleName.HOST_RECEIVED_BYTES_PER_SECOND, received_rate
        self._sent, self._received = sent, received

    def _measure_output(
        self, epoch: int, batch_seconds: float
    ) -> Iterator[tuple[SampleName, float]]:
        try:
            entry = self._store.ledger.get(self._stream, epoch)
        except TransientError:
            return
        if entry is not None:
            yield SampleName.OUTPUT_ROWS, float(entry.rows)
            yield SampleName.OUTPUT_ROWS_PER_SECOND, entry.rows / max(batch_seconds, 0.001)

    def _sample(self, name: SampleName, value: float, epoch: int | None) -> Sample:
        return Sample(
            stream=self._stream, replica=self._replica, name=name, value=value, epoch=epoch
        )

    def _write(self, samples: list[Sample]) -> None:
        try:
            self._store.samples.write(samples)
        except TransientError as error:
            log.warning("%s samples lost: %s", len(samples), error)


def spark_values(progress: Any) -> dict[SampleName, float]:
    """The numbers of a StreamingQueryProgress that the models need; unknown phases are left out."""
    operators = progress["stateOperators"]
    values = {
        SampleName.INPUT_ROWS: float(progress["numInputRows"]),
        SampleName.PROCESSED_ROWS_PER_SECOND: float(progress["processedRowsPerSecond"]),
        SampleName.STATE_ROWS: float(sum(op["numRowsTotal"] for op in operators)),
        SampleName.STATE_BYTES: float(sum(op["memoryUsedBytes"] for op in operators)),
    }
    for phase, millis in progress["durationMs"].items():
        if phase in PHASE_NAMES:
            values[PHASE_NAMES[phase]] = millis / 1000.0
    return values


def _billed_traffic(network: Network) -> tuple[int, int]:
    """Bytes that the host has sent and received, without the loopback interface, which costs nothing."""
    counters, interfaces = network
    billed = [
        counter
        for name, counter in counters.items()
        if name not in interfaces or "loopback" not in interfaces[name].flags.split(",")
    ]
    sent = sum(counter.bytes_sent for counter in billed)
    return sent, sum(counter.bytes_recv for counter in billed)


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
