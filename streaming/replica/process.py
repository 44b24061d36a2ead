"""The life of a replica: deployed, then reconciling, until it is told to leave or loses its place."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import psutil
from pyspark.sql import SparkSession

from ft_policies.errors import HoldfastError, PermanentError, TransientError
from ft_policies.failover import FailoverPolicy
from ft_policies.query_failures import FailureKind
from resources import session_priority
from resources.clock import SYSTEM_CLOCK
from resources.control.records import ReplicaState, Slot
from resources.control.store import ControlStore
from resources.launcher import Launched
from resources.object_store import S3ObjectStore
from resources.patience import patiently
from resources.vault.manifest import Manifest
from resources.vault.vault import SnapshotVault
from streaming import priority
from streaming.gate import Gate, GateState
from streaming.query.catch_up import last_decided
from streaming.query.query import kind_of, open_sender
from streaming.query.query_swap import Queries
from streaming.query.rehearsal import rehearse
from streaming.replica.failover import PrimaryWatch, promote
from streaming.replica.fault_injection import CuttableStore
from streaming.replica.heartbeat import EXIT_LOST, Pulse
from streaming.replica.host import SpareCapacityGuard
from streaming.replica.output import Output
from streaming.replica.reconciler import Ending, Reconciler
from streaming.sampling import Sampler
from streaming.sinks.ledger_writer import Ledgering
from streaming.spark.class_archive import ClassArchive
from streaming.spark.session import binding_conf, end_session
from streaming.spec import ReplicaSpec
from streaming.state.follower import StartingPoint, restore
from streaming.state.standby import Standby

EXIT_STOPPED = 0
EXIT_FAILED = 1

log = logging.getLogger(__name__)


@dataclass
class Life:
    """A pulse, and switches to reconcile around one Spark session, which may still be starting."""

    spec: ReplicaSpec
    store: ControlStore
    session: Future[SparkSession]
    stop_requested: threading.Event
    archive: ClassArchive = field(init=False)

    def __post_init__(self) -> None:
        self.archive = ClassArchive.here(self.spec.replica)

    def run(self) -> int:
        """Live; the value is the process' exit code."""
        row = self.store.replicas.get(self.spec.replica)
        if row is None:
            raise PermanentError(
                f"replica {self.spec.replica} is not in the control store",
                hint="replicas are started by `holdfast start`, not by hand",
            )
        this = Launched.this()
        self.store.replicas.launched(row.id, pid=this.pid, pid_started_at=this.started_at)
        supervision = self.spec.stream.supervision
        gate = Gate(self.spec.folder)
        pulse = Pulse(
            self.store,
            row,
            beat_seconds=supervision.heartbeat,
            lease_seconds=supervision.lease,
            on_lost=lambda: _make_room(gate),
        )
        pulse.start()
        try:
            spark, ending = self._live(pulse, gate)
        except Exception as error:
            log.exception("this replica has failed")
            heals = kind_of(error) is FailureKind.TRANSIENT
            self._leave(pulse, ReplicaState.DEAD if heals else ReplicaState.FAILED, _told(error))
            return EXIT_FAILED
        if ending is Ending.LOST:
            return EXIT_LOST
        self._leave(pulse, ReplicaState.STOPPED, "told to stop")
        self.archive.write(spark)
        end_session(spark)
        return EXIT_STOPPED

    def _live(self, pulse: Pulse, gate: Gate) -> tuple[SparkSession, Ending]:
        name = self.spec.stream.name
        sampler = Sampler(self.store, name, self.spec.replica)
        way = CuttableStore(S3ObjectStore(self.spec.connect), self.spec.folder)
        rollouts = self.store.rollouts
        others = partial(rollouts.rolled_back, name, beside=pulse.row.rollout)
        vault = SnapshotVault(way, name, rolled_back=others)
        is_primary = pulse.row.slot is Slot.PRIMARY
        spark, start = self._deploy(vault, sampler, read_snapshot=is_primary)
        reconciler = self._reconciler(pulse, gate, vault, sampler, spark, start)
        self.archive.write_after(reconciler.led, spark)
        if not is_primary:
            self._stand_by(spark, sampler, reconciler)
        return spark, reconciler.run()

    def _reconciler(
        self,
        pulse: Pulse,
        gate: Gate,
        vault: SnapshotVault,
        sampler: Sampler,
        spark: SparkSession,
        start: StartingPoint | None,
    ) -> Reconciler:
        """What a replica is made of, wired together."""
        spec, store, wake = self.spec, self.store, threading.Event()
        watch = self._watch(pulse, wake)

        def token() -> int:
            return pulse.token() or watch.token()

        ledgering = Ledgering(store, spec.stream.name, spec.replica, token, spec.history)
        sender = open_sender(spec, ledgering, sending=False)
        return Reconciler(
            spec=spec,
            store=store,
            pulse=pulse,
            gate=gate,
            output=Output(spec, store, vault, spark, pulse, sender, sampler),
            sampler=sampler,
            watch=watch,
            token=token,
            spare=SpareCapacityGuard.of(spec.stream.secondary),
            stop_requested=self.stop_requested,
            wake=wake,
            standby=Standby(spec, vault, store, sampler, start),
            queries=Queries(spec, spark, sender),
        )

    def _watch(self, pulse: Pulse, wake: threading.Event) -> PrimaryWatch:
        supervision = self.spec.stream.supervision
        return PrimaryWatch(
            self.store,
            self.spec.stream.name,
            FailoverPolicy(lease_seconds=supervision.lease),
            beat_seconds=supervision.heartbeat,
            promote=lambda fallen: promote(self.store, pulse, fallen, supervision.lease),
            wake=wake,
        )

    def _stand_by(self, spark: SparkSession, sampler: Sampler, reconciler: Reconciler) -> None:
        """Watch the primary, and rehearse until there is something more urgent."""
        watch = reconciler.watch
        watch.start()
        self._rehearse(spark, sampler, lambda: watch.promotion is not None or reconciler.is_over())

    def _deploy(
        self, vault: SnapshotVault, sampler: Sampler, *, read_snapshot: bool
    ) -> tuple[SparkSession, StartingPoint | None]:
        """Wait for Spark; a primary reads the snapshot meanwhile: each waits for something else."""
        with ThreadPoolExecutor(1, thread_name_prefix="restore") as pool:
            restoring = (
                pool.submit(restore, self.spec, self.store, vault) if read_snapshot else None
            )
            spark = self.session.result()
            sampler.once("t_deploy_seconds", SYSTEM_CLOCK.now() - psutil.Process().create_time())
            restored = None if restoring is None else restoring.result()
        if restored is not None:
            restored.tell(sampler)
            if restored.manifest is not None:
                _compare(spark, restored.manifest)
        return spark, restored

    def _rehearse(self, spark: SparkSession, sampler: Sampler, give_up: Callable[[], bool]) -> None:
        try:
            decided = last_decided(self.store, self.spec.stream.name, give_up) + 1
        except TransientError as error:  # it was given up, for something more urgent
            log.warning("no rehearsal: %s", error)
            return
        began = SYSTEM_CLOCK.monotonic()
        if rehearse(spark, self.spec, decided_epochs=decided, give_up=give_up):
            sampler.once("t_rehearse_seconds", SYSTEM_CLOCK.monotonic() - began)

    def _leave(self, pulse: Pulse, state: ReplicaState, reason: str) -> None:
        pulse.stop()
        patiently(pulse.beat, what="telling how far it came")
        patiently(pulse.release_lease, what="giving the lease back")
        patiently(
            lambda: self.store.replicas.end(self.spec.replica, state, reason),
            what="saying good-bye",
        )
        log.info("%s: %s", state, reason)


def _compare(spark: SparkSession, manifest: Manifest) -> None:
    """Say what the declaration has changed since the snapshot: Spark goes on with the old value."""
    for line in manifest.mismatches(spark_version=spark.version, conf=binding_conf(spark)):
        log.warning("the checkpoint keeps its own setting. %s", line)


def _make_room(gate: Gate) -> None:
    """Send nothing more, and leave the host to whoever has the place now."""
    gate.set(GateState(open=False, token=0))
    session_priority.lower(priority.LOWEST)


def _told(error: Exception) -> str:
    hint = error.hint if isinstance(error, HoldfastError) else ""
    return f"{error} ({hint})" if hint else str(error)
