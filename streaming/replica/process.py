"""The process of a replica: it deploys, then reconciles until a stop is requested or it loses its place."""

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

import psutil
from pyspark.sql import SparkSession

from holdfast.ft_policies.driver import FailureKind
from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.ft_policies.health import FailoverPolicy
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState, Slot
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.process import ProcessHandle
from holdfast.resources.retry import retry_transient
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.lease import StreamLease
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.catch_up import last_decided
from holdfast.streaming.query.query import classify_failure, open_sender
from holdfast.streaming.query.query_swap import QuerySwap
from holdfast.streaming.query.rehearsal import rehearse, warm_up
from holdfast.streaming.replica.failover import PrimaryMonitor, Takeover
from holdfast.streaming.replica.fault_injection import BlockableStore
from holdfast.streaming.replica.heartbeat import EXIT_LOST, Departure, Heartbeat
from holdfast.streaming.replica.host import SpareCapacityGuard
from holdfast.streaming.replica.output import Sending
from holdfast.streaming.replica.processor import Processor
from holdfast.streaming.replica.reconciler import POLL_SECONDS, Ending, Reconciler
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.spark.class_archive import ClassArchive
from holdfast.streaming.spark.session import checkpoint_conf, end_session, settings_file
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.follower import RestoredState, restore
from holdfast.streaming.state.standby import Standby

EXIT_STOPPED = 0
EXIT_FAILED = 1

log = logging.getLogger(__name__)


@dataclass
class ReplicaProcess:
    """A heartbeat, and switches to reconcile around one Spark session, which may still be starting."""

    spec: ReplicaSpec
    store: ControlStore
    session: Future[SparkSession]
    stop_requested: threading.Event
    archive: ClassArchive = field(init=False)

    def __post_init__(self) -> None:
        self.archive = ClassArchive.here(self.spec.replica)

    def run(self) -> int:
        """Run until the end of the replica, and return the exit code of the process."""
        if self.spec.slot is Slot.PRIMARY:
            self.session.add_done_callback(_warm_up_beside)
        row = retry_transient(self._record_process, what="reporting the process")
        gate = Gate(self.spec.folder)
        heartbeat = self._heartbeat(row, gate)
        heartbeat.start()
        try:
            spark, ending = self._run(heartbeat, gate)
        except Exception as error:
            log.exception("replica failed")
            is_transient = classify_failure(error) is FailureKind.TRANSIENT
            state = ReplicaState.DEAD if is_transient else ReplicaState.FAILED
            self._leave(heartbeat, state, _message(error))
            return EXIT_FAILED
        if ending is Ending.LOST:
            return EXIT_LOST
        self._leave(heartbeat, ReplicaState.STOPPED, "stop requested")
        self.archive.write(spark)
        end_session(spark)
        return EXIT_STOPPED

    def _record_process(self) -> ReplicaRow:
        row = self.store.replicas.get(self.spec.replica)
        if row is None:
            raise PermanentError(
                f"replica {self.spec.replica} is not in the control store",
                hint="start the stream with `holdfast start`: it registers its replicas",
            )
        process = ProcessHandle.this()
        self.store.replicas.record_process(
            row.id, pid=process.pid, pid_started_at=process.started_at
        )
        return row

    def _heartbeat(self, row: ReplicaRow, gate: Gate) -> Heartbeat:
        supervision = self.spec.stream.supervision
        store = (
            self.store.with_own_connection()
        )  # slow statements of others must not cost the lease
        lease = StreamLease(store, row.stream, row.id, ttl_seconds=supervision.lease)
        return Heartbeat(
            store,
            row,
            lease,
            beat_seconds=supervision.heartbeat,
            on_lost=partial(_leave_at_once, gate, EXIT_LOST),
        )

    def _run(self, heartbeat: Heartbeat, gate: Gate) -> tuple[SparkSession, Ending]:
        name = self.spec.stream.name
        sampler = Sampler(self.store, name, self.spec.replica)
        objects = BlockableStore(S3ObjectStore(self.spec.connect), self.spec.folder)
        migrations = self.store.migrations
        rolled_back = partial(migrations.find_rolled_back, name, beside=heartbeat.row.rollout)
        vault = SnapshotVault(
            objects, name, rolled_back=rolled_back, project_id=self.store.identity.project_id
        )
        is_primary = heartbeat.row.slot is Slot.PRIMARY
        departure = Departure(heartbeat, self.stop_requested)
        spark, start = self._deploy(departure, gate, vault, sampler, read_snapshot=is_primary)
        reconciler = self._reconciler(departure, gate, vault, sampler, spark, start)
        self.archive.write_after(reconciler.leading, spark)
        if not is_primary:
            self._stand_by(spark, sampler, reconciler)
        return spark, reconciler.run()

    def _reconciler(
        self,
        departure: Departure,
        gate: Gate,
        vault: SnapshotVault,
        sampler: Sampler,
        spark: SparkSession,
        start: RestoredState | None,
    ) -> Reconciler:
        """Make the parts of a replica and connect them."""
        spec, store, wake = self.spec, self.store, threading.Event()
        heartbeat = departure.heartbeat
        ledger = LedgerWriter(store, spec.stream.name, spec.replica, heartbeat.lease, spec.history)
        sender = open_sender(spec, ledger, sending=False)
        standby = Standby(spec, vault, store, sampler, start)
        queries = QuerySwap(spec, spark, sender)
        return Reconciler(
            store=store,
            heartbeat=heartbeat,
            departure=departure,
            monitor=self._monitor(heartbeat, wake),
            standby=standby,
            processor=Processor(spec, store, departure, gate, standby, queries, sampler),
            sending=Sending(spec, store, vault, spark, heartbeat, sender, sampler),
            sampler=sampler,
            spare=SpareCapacityGuard.of(spec.stream.secondary),
            wake=wake,
        )

    def _monitor(self, heartbeat: Heartbeat, wake: threading.Event) -> PrimaryMonitor:
        supervision = self.spec.stream.supervision
        return PrimaryMonitor(
            self.store,
            heartbeat.lease,
            FailoverPolicy(lease_seconds=supervision.lease),
            Takeover(heartbeat),
            beat_seconds=supervision.heartbeat,
            wake=wake,
        )

    def _stand_by(self, spark: SparkSession, sampler: Sampler, reconciler: Reconciler) -> None:
        """Monitor the primary, and rehearse until there is something more urgent."""
        monitor, departure = reconciler.monitor, reconciler.departure
        monitor.start()
        self._rehearse(spark, sampler, lambda: monitor.promotion is not None or departure.is_due())

    def _deploy(
        self,
        departure: Departure,
        gate: Gate,
        vault: SnapshotVault,
        sampler: Sampler,
        *,
        read_snapshot: bool,
    ) -> tuple[SparkSession, RestoredState | None]:
        """Wait for Spark; a primary reads the snapshot at the same time."""
        with ThreadPoolExecutor(1, thread_name_prefix="restore") as pool:
            restoring = (
                pool.submit(restore, self.spec, self.store, vault) if read_snapshot else None
            )
            spark = self._await_session(departure, gate)
            deploy_seconds = SYSTEM_CLOCK.now() - psutil.Process().create_time()
            sampler.record(SampleName.DEPLOY_SECONDS, deploy_seconds)
            restored = None if restoring is None else restoring.result()
        if restored is not None:
            restored.record(sampler)
            if restored.manifest is not None:
                _log_mismatches(spark, restored.manifest)
        return spark, restored

    def _await_session(self, departure: Departure, gate: Gate) -> SparkSession:
        """Wait for Spark; a replica that has to leave before ends here, since Spark may never answer."""
        while not wait([self.session], POLL_SECONDS).done:
            if departure.is_due():
                self._leave(departure.heartbeat, ReplicaState.STOPPED, "stop requested")
                settings_file(self.spec).unlink(missing_ok=True)
                _leave_at_once(gate, EXIT_STOPPED)
        return self.session.result()

    def _rehearse(self, spark: SparkSession, sampler: Sampler, give_up: Callable[[], bool]) -> None:
        try:
            decided = last_decided(self.store, self.spec.stream.name, give_up) + 1
        except TransientError as error:  # `give_up` has ended the wait
            log.warning("rehearsal skipped: %s", error)
            return
        began = SYSTEM_CLOCK.monotonic()
        if rehearse(spark, self.spec, decided_epochs=decided, give_up=give_up):
            sampler.record(SampleName.REHEARSE_SECONDS, SYSTEM_CLOCK.monotonic() - began)

    def _leave(self, heartbeat: Heartbeat, state: ReplicaState, reason: str) -> None:
        heartbeat.stop()
        retry_transient(heartbeat.beat, what="reporting the last epoch")
        retry_transient(heartbeat.lease.release, what="releasing the lease")
        retry_transient(
            lambda: self.store.replicas.end(self.spec.replica, state, reason, by=EndedBy.REPLICA),
            what="reporting the end of this replica",
        )
        log.info("%s: %s", state, reason)


def _warm_up_beside(session: Future[SparkSession]) -> None:
    """Warm up Spark in the background, if it has started, while the primary continues its own start."""
    if session.exception() is None:
        spark = session.result()
        threading.Thread(target=warm_up, args=(spark,), name="warm-up", daemon=True).start()


def _log_mismatches(spark: SparkSession, manifest: Manifest) -> None:
    """Log settings that the declaration has changed since the snapshot: Spark keeps the old values."""
    for line in manifest.mismatches(spark_version=spark.version, conf=checkpoint_conf(spark)):
        log.warning("the checkpoint keeps its old setting: %s", line)


def _leave_at_once(gate: Gate, exit_code: int) -> NoReturn:
    """Shut the gate and leave at once, with the JVM: there is nothing to save, and the successor needs the CPU."""
    gate.set(GateState(open=False, token=0))
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    logging.shutdown()
    os._exit(exit_code)


def _message(error: Exception) -> str:
    hint = error.hint if isinstance(error, HoldfastError) else ""
    return f"{error} ({hint})" if hint else str(error)
