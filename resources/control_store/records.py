"""What the control store holds: one frozen record per row, one enum per state.

`schema` makes the tables from these records: a field is a column of the same name, and one that may be
`None` may be NULL. A field `*_at` that defaults to 0.0 is filled in by the store, by its own clock.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Mode, Switches, Tier
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.sample_names import SampleName

JsonObject: TypeAlias = dict[str, Any]


class DesiredState(StrEnum):
    """Whether a stream is asked to run."""

    RUNNING = "running"
    STOPPED = "stopped"


class Slot(StrEnum):
    """The two places that a stream has for replicas."""

    PRIMARY = "primary"
    SECONDARY = "secondary"


class ReplicaState(StrEnum):
    """The state of a replica; the ended states are final."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    FENCED = "fenced"
    HANDED_OVER = "handed_over"
    DEAD = "dead"

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self in _ENDED


_ENDED = frozenset(
    {
        ReplicaState.STOPPED,
        ReplicaState.FAILED,
        ReplicaState.FENCED,
        ReplicaState.HANDED_OVER,
        ReplicaState.DEAD,
    }
)


class EndedBy(StrEnum):
    """The component that recorded the end of a replica."""

    REPLICA = "replica"
    LAUNCHER = "launcher"
    TAKEOVER = "takeover"
    PLAYBOOK = "playbook"
    REPAIR = "repair"


class SnapshotState(StrEnum):
    """Whether a snapshot may be restored."""

    AVAILABLE = "available"
    DAMAGED = "damaged"
    DROPPED = "dropped"


class IncidentState(StrEnum):
    """Whether an incident still needs a recovery."""

    OPEN = "open"
    CLOSED = "closed"


class IncidentSubject(StrEnum):
    """The replica that a recovery incident is about."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    ORPHAN = "orphan"
    """A replica that lives though the stream was stopped, and has not been asked to stop."""


class Phase(StrEnum):
    """A journal line comes before the act (intent) or after it."""

    INTENT = "intent"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """A declared stream and its desired state; `rollout` is the stored name of its last finished migration's number."""

    name: str
    declaration: JsonObject
    declared_tier: Tier
    tier: Tier
    desired: DesiredState
    declared_at: float
    changed_at: float
    snapshot_every: float | None  # as declared, if `None`
    sync_every: float | None
    rollout: int = 0

    @property
    def is_desired(self) -> bool:
        """Whether the stream should run."""
        return self.desired is DesiredState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A migration of a running stream to another declaration, `target`; `rollout` is its number.

    It is under way until `ended_at`; `done` tells a finished migration from an abandoned one.
    """

    stream: str
    rollout: int
    target: JsonObject
    target_tier: Tier
    protocol: Protocol
    may_differ: bool
    begun_at: float
    deadline_at: float
    why: str
    run: str
    ended_at: float | None
    done: bool | None
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """How often snapshots are shipped and synced, in seconds; `None` is as declared."""

    snapshot_every: float | None = None
    sync_every: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChange:
    """A request for another tier, and when the replicas reached it."""

    id: int
    stream: str
    at: float
    tier_from: Tier | None
    tier_to: Tier
    why: str
    run: str
    reached_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """One incarnation of a replica: its desired and its observed switches.

    `rollout` is the number of the migration whose declaration it runs. `generation` grows with each change of the
    desired switches; when the replica takes a slot, it is the highest of the stream. `progressed_at` is when it
    finished its last epoch, or was started if it has none.
    """

    id: str
    stream: str
    slot: Slot
    state: ReplicaState
    desired: Switches
    observed: Switches
    generation: int
    observed_generation: int
    snapshot_requested: int
    snapshot_served: int
    host: str
    pid: int | None
    pid_started_at: float | None  # seconds since boot, not unix time
    folder: str
    epoch: int | None
    progressed_at: float | None
    registered_at: float
    heartbeat_at: float | None
    ended_at: float | None
    ended_by: EndedBy | None
    reason: str
    rollout: int = 0
    boot: str = ""  # see `holdfast.resources.process.BOOT`

    @property
    def finished_at(self) -> float | None:
        """When it finished its last epoch; `None` if it has none."""
        return None if self.epoch is None else self.progressed_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lease of the primary; the token only grows."""

    stream: str
    holder: str | None
    token: int
    taken_at: float
    renewed_at: float
    expires_at: float

    def is_expired(self, now: float) -> bool:
        """Whether another replica may take it at this time of the store's clock."""
        return self.holder is None or now >= self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochProposal:
    """A slice of the input that a replica proposes as the next epoch."""

    stream: str
    epoch: int
    start: JsonObject
    end: JsonObject
    input: JsonObject
    rows: int
    token: int
    proposer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch(EpochProposal):
    """A slice of the input, decided for good."""

    decided_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The output of an epoch, as the replica that committed it computed it."""

    stream: str
    epoch: int
    replica: str
    token: int
    rows: int
    digest: str
    committed_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRow:
    """A restore in place: it ends one history of the stream at `epoch` and begins the next.

    It is requested, then closed (the older history can add no entries), then begun (the output of later
    epochs no longer counts), then finished.
    """

    stream: str
    history: int
    epoch: int
    snapshot: str | None
    why: str
    run: str
    was_running: bool
    asked_at: float
    begun_at: float | None = None
    finished_at: float | None = None
    closed_at: float | None = None

    @property
    def closed(self) -> bool:
        """Whether the older history can add no entries to the ledger; its later ones are being set aside."""
        return self.closed_at is not None

    @property
    def begun(self) -> bool:
        """Whether the output of later epochs no longer counts."""
        return self.begun_at is not None

    @property
    def finished(self) -> bool:
        """Whether state and output are back at the epoch."""
        return self.finished_at is not None

    @property
    def half_done(self) -> bool:
        """Whether state and output of the stream do not agree yet."""
        return self.closed and not self.finished

    def has_same_target(self, other: "RestoreRow") -> bool:
        """Whether both rows are the same restore; a restore that has not begun may be replaced by another."""
        target = (self.history, self.epoch, self.snapshot)
        return target == (other.history, other.epoch, other.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A snapshot in the object store, as the catalogue records it."""

    stream: str
    id: str
    epoch: int
    token: int
    replica: str
    parent: str | None = None
    manifest_key: str
    files: int
    total_bytes: int
    new_bytes: int
    requests: int
    seconds: float
    state: SnapshotState = SnapshotState.AVAILABLE
    reason: str = ""
    created_at: float = 0.0
    verified_at: float | None = None
    """When all its digests were checked last."""
    proven_at: float | None = None
    """When a proof last recomputed committed output from it."""
    proven_seconds: float | None = None
    history: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement; without a time it is of the moment it is written."""

    stream: str
    replica: str
    name: SampleName
    value: float
    epoch: int | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One failure, however many observers report it, and the run that recovers it."""

    id: str
    stream: str
    key: str
    kind: IncidentKind
    subject: IncidentSubject | None
    replica: str | None
    state: IncidentState
    opened_at: float
    closed_at: float | None
    detail: JsonObject
    outcome: str
    claimed_by: str | None
    claim_expires_at: float | None
    attempts: int

    @property
    def reason(self) -> str:
        """Why it was opened; empty if that is not known."""
        return str(self.detail.get("reason") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """A step of a playbook: about to be done, done, or failed."""

    id: int
    stream: str
    playbook: str
    run: str
    incident: str | None
    step: str
    phase: Phase
    at: float
    seconds: float | None
    detail: JsonObject = field(default_factory=dict)

    @property
    def failure(self) -> str:
        """Why the step failed: the run failed with it, or went on with another step; empty if it did not."""
        return str(self.detail.get("error" if self.phase is Phase.FAILED else "failed") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision of the controller about a stream; `record` holds all its inputs."""

    id: int = 0
    stream: str
    at: float = 0.0
    mode: Mode
    chosen: Tier
    snapshot_every: float | None = None
    sync_every: float | None = None
    reason: str
    record: JsonObject
    run: str = ""

    @property
    def why(self) -> str:
        """The deciding rule in a word; empty if the record was written by another version."""
        return str(self.record.get("why", ""))

    @property
    def acted(self) -> bool:
        """Whether it led to a switch."""
        return bool(self.record.get("acts"))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityRow:
    """A random id that has to be the same elsewhere: `scope` is `project` or `home`."""

    scope: str
    id: str
