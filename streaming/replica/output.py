"""What leaves a replica: its epochs through the sender, and a primary's snapshots."""

import logging
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from holdfast.ft_policies import quantities
from holdfast.ft_policies.driver import GiveUp, QueryFailurePolicy
from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.tiers import Switches
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.query import RunningQuery, classify_failure
from holdfast.streaming.replica.heartbeat import Heartbeat
from holdfast.streaming.replica.states import Role
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.spark.session import checkpoint_conf
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.shipper import Shipper

PRUNE_SECONDS = 1.0
SAMPLE_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass
class Sending:
    """The sender of a replica and, once it is primary and sends, its shipper."""

    spec: ReplicaSpec
    store: ControlStore
    vault: SnapshotVault
    spark: SparkSession
    heartbeat: Heartbeat
    sender: Sender
    sampler: Sampler
    policy: QueryFailurePolicy = field(default_factory=QueryFailurePolicy)
    clock: Clock = SYSTEM_CLOCK
    _shipper: Shipper | None = None
    _pruned_at: float = 0.0
    _sampled_at: float = 0.0
    _again_at: float = 0.0
    _failures: int = 0

    @property
    def is_open(self) -> bool:
        """Whether epochs are sent as they come."""
        return self.sender.is_open

    def reconcile(self, desired: Switches, role: Role) -> bool:
        """Send or hold back, as desired; returns whether epochs are sent now.

        Held-back epochs that the primary has sent are dropped.
        """
        self._sample_commits()
        if not desired.send:
            self.sender.shut()
            self._prune()
        elif not self.is_open:
            self._open(timed=role is Role.PRIMARY)
        return self.is_open

    def ship(self, query: RunningQuery) -> None:
        """Start to ship snapshots, once every finished epoch of the query is sent."""
        if self._shipper is not None or not self.is_open:
            return
        self._shipper = Shipper(
            self.spec,
            self.vault,
            self.store,
            checkpoint=query.checkpoint,
            conf=checkpoint_conf(self.spark),
            parent=query.parent,
            lease=self.heartbeat.lease,
            requested=lambda: self.heartbeat.row.snapshot_requested,
            on_served=lambda count: self.heartbeat.report(snapshot_served=count),
        )
        self._shipper.start()

    def finish(self) -> None:
        """Ship a last snapshot."""
        if self._shipper is not None:
            self._shipper.finish()

    def _open(self, *, timed: bool) -> None:
        """Send the held-back epochs; an error of the user's own sink is retried like that of a batch."""
        began = self.clock.monotonic()
        if began < self._again_at:
            return
        try:
            self.sender.open()
        except HoldfastError:
            raise
        except Exception as error:
            self._failures += 1
            decision = self.policy.decide(classify_failure(error), failures_in_a_row=self._failures)
            if isinstance(decision, GiveUp):
                raise
            self._again_at = began + decision.after_seconds
            log.exception(
                "held-back epochs not sent, next attempt in %s: %s",
                quantities.seconds(decision.after_seconds),
                decision.reason,
            )
            return
        self._failures = 0
        if timed:
            self.sampler.record(SampleName.WIRE_SEND_SECONDS, self.clock.monotonic() - began)

    def _sample_commits(self) -> None:
        now = self.clock.monotonic()
        if now - self._sampled_at < SAMPLE_SECONDS:
            return
        self._sampled_at = now
        seconds = self.sender.take_slowest_commit()
        if seconds is not None:
            self.sampler.record(SampleName.COMMIT_SECONDS, seconds)

    def _prune(self) -> None:
        now = self.clock.monotonic()
        if self.sender.held_back and now - self._pruned_at >= PRUNE_SECONDS:
            self._pruned_at = now
            self.sender.prune()
