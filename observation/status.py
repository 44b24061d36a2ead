"""The status of a stream: what its replicas report, judged together with their processes and leases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from holdfast.ft_policies.health import (
    FAILURES_BEFORE_GIVING_UP,
    Health,
    HealthPolicy,
    HealthVerdict,
    PrimaryFacts,
    SecondaryFacts,
)
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.migration import (
    MOST_BEHIND,
    REPLAY_SHARE,
    MigrationFacts,
    Protocol,
)
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts
from holdfast.ft_policies.tiers import OFF, Tier, covered_tier
from holdfast.observation.lag import find_tolerated_lag, lag_readings
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    Epoch,
    Lease,
    LedgerEntry,
    Migration,
    ReplicaRow,
    ReplicaState,
    Slot,
    StreamRow,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import find_process, find_process_state
from holdfast.resources.project import Project

RECENT_EPOCHS = 100  # epochs: a copy is compared soon after its epoch is committed
INPUT_AWAY_SECONDS = 60.0  # longer than the pause between two attempts of a query
_LOST = frozenset({ReplicaState.FAILED, ReplicaState.DEAD, ReplicaState.FENCED})


def migration_facts(
    store: ControlStore,
    migration: Migration,
    *,
    before: int,
    at: float,
    committed: LedgerEntry | None,
    replicas: Sequence[ReplicaRow],
) -> MigrationFacts:
    """The facts of the open migration; `before` is the number of the migration before it."""
    targets = [row for row in replicas if row.rollout == migration.rollout]
    target = next((row for row in targets if not row.state.ended), None)
    return MigrationFacts(
        number=migration.rollout,
        protocol=migration.protocol,
        before=before,
        caught_up=target is not None and _has_caught_up(store, migration, target, committed, at),
        overdue=at > migration.deadline_at,
        differs=None if migration.may_differ else _difference(store, migration, target),
        failed=_failure(targets),
    )


def _has_caught_up(
    store: ControlStore,
    migration: Migration,
    target: ReplicaRow,
    committed: LedgerEntry | None,
    at: float,
) -> bool:
    """Whether the target is as near as its protocol requires, and has output to compare."""
    if committed is None or migration.protocol is Protocol.LEGACY:
        return True
    if migration.protocol is Protocol.REPLAY and at > _at_share(migration, REPLAY_SHARE):
        return store.ledger.has_copy(target.stream, target.id, first=0)
    done = -1 if target.epoch is None else target.epoch
    near = committed.epoch - done <= MOST_BEHIND[migration.protocol]
    first = committed.epoch - RECENT_EPOCHS
    return near and store.ledger.has_copy(target.stream, target.id, first=first)


def _at_share(migration: Migration, share: float) -> float:
    """When this share of the time until the deadline is over."""
    return migration.begun_at + share * (migration.deadline_at - migration.begun_at)


def _difference(store: ControlStore, migration: Migration, target: ReplicaRow | None) -> str | None:
    """The reason of the incident if the target's output differs from the committed output."""
    if target is None:
        return None
    return next(
        (
            incident.reason
            for incident in store.incidents.of(migration.stream)
            if incident.kind == IncidentKind.DIGEST_DIFFERS and incident.replica == target.id
        ),
        None,
    )


def _failure(targets: Sequence[ReplicaRow]) -> str | None:
    """Why no other target is launched: the last failed as the primary, or too many were lost."""
    lost = [row for row in targets if row.state in _LOST]
    if not lost:
        return None
    last = max(lost, key=lambda row: row.generation)
    as_primary = last.slot is Slot.PRIMARY and last.state is ReplicaState.FAILED
    return last.reason if as_primary or len(lost) >= FAILURES_BEFORE_GIVING_UP else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """What the control store and the processes show of a stream at one time.

    `tier` is the tier that the stream should have, `covered` the tier that its live replicas cover; `changed_at`
    is when the stream was last started, stopped or declared again. With `input_away` it waits for its input.
    """

    name: str
    at: float
    wanted: bool
    changed_at: float
    verdict: HealthVerdict
    input_away: bool
    primary: ReplicaRow | None
    last_primary: ReplicaRow | None
    tier: Tier
    covered: Tier
    secondary: ReplicaRow | None
    secondary_verdict: HealthVerdict | None
    last_secondary: ReplicaRow | None
    lease: Lease | None
    epoch: Epoch | None
    committed: LedgerEntry | None
    failures_in_a_row: int
    secondary_failures_in_a_row: int
    desired_migration: int
    migration: MigrationFacts | None

    @property
    def is_settled(self) -> bool:
        """Whether the recover playbook has no step left; a secondary may still be paused."""
        return next_step(self.recover_facts()) is None

    @property
    def covers_its_tier(self) -> bool:
        """Whether the live replicas cover the tier that the stream should have."""
        return self.covered.strength >= self.tier.strength

    @property
    def needs_second_look(self) -> bool:
        """Whether a replica seems to be silent: a clock that was set looks the same for a moment."""
        verdicts = (self.verdict, self.secondary_verdict)
        return any(verdict is not None and verdict.health.needs_second_look for verdict in verdicts)

    def failure_of(self, replica: str) -> str:
        """Why a live replica counts as failed; empty for one that does not."""
        verdicts = ((self.primary, self.verdict), (self.secondary, self.secondary_verdict))
        for row, verdict in verdicts:
            if row is not None and row.id == replica and verdict is not None:
                return verdict.reason if verdict.health.failed else ""
        return ""

    def recover_facts(self) -> RecoverFacts:
        """The facts that the recover playbook decides on."""
        return RecoverFacts(
            verdict=self.verdict,
            primary=None if self.primary is None else self.primary.id,
            token=0 if self.lease is None else self.lease.token,
            failures_in_a_row=self.failures_in_a_row,
            last_failure="" if self.last_primary is None else self.last_primary.reason,
            tier=self.tier,
            secondary=self.secondary_view(),
            secondary_failures_in_a_row=self.secondary_failures_in_a_row,
            last_secondary_failure=""
            if self.last_secondary is None
            else self.last_secondary.reason,
            desired_migration=self.desired_migration,
            primary_migration=0 if self.primary is None else self.primary.rollout,
            migration=self.migration,
        )

    def secondary_view(self) -> SecondaryView | None:
        """The live secondary, as the recover playbook needs it; `None` without one."""
        row, verdict = self.secondary, self.secondary_verdict
        if row is None or verdict is None:
            return None
        return SecondaryView(
            id=row.id,
            health=verdict.health,
            reason=verdict.reason,
            observed=row.observed,
            desired=row.desired,
            paused=row.state is ReplicaState.PAUSED,
            migration=row.rollout,
        )


def observe_stream(
    project: Project, name: str, *, secondaries_since: float = 0.0, as_wanted: bool = False
) -> StreamStatus:
    """Observe a stream now; failures of secondaries before `secondaries_since` do not count.

    With `as_wanted` it is judged as a stream that should run, whatever is desired.
    """
    policy = HealthPolicy(project.timings(name))
    store = project.store
    row = store.streams.get(name)
    replicas = store.replicas.of(name, live=False)
    primaries, secondaries = _of_slot(Slot.PRIMARY, replicas), _of_slot(Slot.SECONDARY, replicas)
    primary, secondary = _live(primaries), _live(secondaries)
    lease = store.leases.get(name)
    at = store.now()
    wanted = as_wanted or (row is not None and row.is_desired)
    since = 0.0 if row is None else row.changed_at
    verdict = None if secondary is None else _judge_secondary(policy, store, secondary, at)
    committed, migration = store.ledger.last(name), store.migrations.open(name)
    failures = _failures(primaries, committed, since=since)
    input_away = primary is not None and _is_input_away(store, primary, at)
    health = policy.judge(
        wanted=wanted,
        primary=None
        if primary is None
        else replace(
            _primary_facts(primary, primaries, lease, at),
            input_away=input_away,
            lag=lag_readings(store, primary, at=at),
            tolerated_lag_seconds=find_tolerated_lag(project.config.stream(name)),
        ),
        failures_in_a_row=0 if as_wanted or secondary is not None else failures,
        last_failure=primaries[0].reason if primaries else "",
    )
    return StreamStatus(
        name=name,
        at=at,
        wanted=wanted,
        changed_at=since,
        verdict=health,
        input_away=input_away and health.health is Health.WAITING,
        primary=primary,
        last_primary=primaries[0] if primaries else None,
        tier=_tier(project, name, row),
        covered=_find_covered(secondary, verdict),
        secondary=secondary,
        secondary_verdict=verdict,
        last_secondary=secondaries[0] if secondaries else None,
        lease=lease,
        epoch=store.epochs.last(name),
        committed=committed,
        failures_in_a_row=failures,
        secondary_failures_in_a_row=_secondary_failures(
            secondaries, since=max(since, secondaries_since, _tier_changed_at(store, name))
        ),
        desired_migration=_desired_migration(row, migration),
        migration=None
        if migration is None
        else migration_facts(
            store,
            migration,
            before=0 if row is None else row.rollout,
            at=at,
            committed=committed,
            replicas=replicas,
        ),
    )


def _tier_changed_at(store: ControlStore, stream: str) -> float:
    return max((change.at for change in store.tiers.history(stream, limit=1)), default=0.0)


def _desired_migration(row: StreamRow | None, under_way: Migration | None) -> int:
    """The number of the migration that a replica which is launched now should run."""
    if under_way is not None:
        return under_way.rollout
    return 0 if row is None else row.rollout


def _of_slot(slot: Slot, replicas: list[ReplicaRow]) -> list[ReplicaRow]:
    """The replicas that have or had the slot: the live one first, then the last to take the slot.

    They are not sorted by time: the clock may have been set back, and a secondary that took over may be older than
    the primary it replaced.
    """
    rows = [row for row in replicas if row.slot is slot]
    return sorted(rows, key=lambda row: (row.ended_at is None, row.generation), reverse=True)


def _live(rows: list[ReplicaRow]) -> ReplicaRow | None:
    return next((row for row in rows if not row.state.ended), None)


def _tier(project: Project, name: str, row: StreamRow | None) -> Tier:
    return project.config.stream(name).tier if row is None else row.tier


def _find_covered(secondary: ReplicaRow | None, verdict: HealthVerdict | None) -> Tier:
    """The tier that the secondary covers; a secondary that is stopping cannot take over any more."""
    if secondary is None or verdict is None or verdict.health.failed:
        return Tier.PASSIVE_REPLICATION
    if secondary.state is ReplicaState.STOPPING:
        return Tier.PASSIVE_REPLICATION
    return covered_tier(secondary.observed)


def _primary_facts(
    primary: ReplicaRow, primaries: list[ReplicaRow], lease: Lease | None, at: float
) -> PrimaryFacts:
    """The facts of the primary; for a secondary that took over, they count from the takeover."""
    registered_age_seconds, finished_at = _count_age_seconds(primary, at), primary.finished_at
    if lease is not None and lease.holder == primary.id:
        registered_age_seconds = at - lease.taken_at
        if finished_at is not None and finished_at < lease.taken_at:
            finished_at = None
    return PrimaryFacts(
        id=primary.id,
        process=find_process_state(primary),
        registered_age_seconds=registered_age_seconds,
        heartbeat_age_seconds=None if primary.heartbeat_at is None else at - primary.heartbeat_at,
        progress_age_seconds=None if finished_at is None else at - finished_at,
        processing=primary.observed.process,
        caught_up=primary.state is not ReplicaState.STARTING,
        given_up_before=_given_up_at_the_same_epoch(primary, primaries),
    )


def _count_age_seconds(row: ReplicaRow, at: float) -> float:
    """Seconds since a replica was started, as its heartbeats tell until its first epoch.

    Before the first heartbeat the process tells, if the store's clock was set since the registration.
    """
    if row.epoch is None and row.progressed_at is not None:
        return at - row.progressed_at
    age = at - row.registered_at
    process = find_process(row)
    process_age = None if process is None else process.age_seconds()
    return age if process_age is None or 0.0 <= age <= process_age else process_age


def _is_input_away(store: ControlStore, primary: ReplicaRow, at: float) -> bool:
    """Whether the primary has reported recently that it waits for its input, and has finished no epoch since."""
    since = max(at - INPUT_AWAY_SECONDS, primary.progressed_at or 0.0)
    samples = store.samples.series(primary.stream, SampleName.INPUT_AWAY, since_at=since)
    return any(sample.replica == primary.id for sample in samples)


def _judge_secondary(
    policy: HealthPolicy, store: ControlStore, row: ReplicaRow, at: float
) -> HealthVerdict:
    active_at = [row.registered_at, row.progressed_at]
    for change in store.tiers.history(row.stream, limit=1):
        active_at += [change.at, change.reached_at]
    return policy.judge_secondary(
        SecondaryFacts(
            id=row.id,
            process=find_process_state(row),
            registered_age_seconds=_count_age_seconds(row, at),
            heartbeat_age_seconds=None if row.heartbeat_at is None else at - row.heartbeat_at,
            quiet_seconds=at - max(time for time in active_at if time is not None),
            leaving=row.desired == OFF or row.state is ReplicaState.STOPPING,
            deployed=row.observed.deploy,
            processing=row.observed.process,
            paused=row.state is ReplicaState.PAUSED,
        )
    )


def _given_up_at_the_same_epoch(primary: ReplicaRow, primaries: list[ReplicaRow]) -> int:
    """Count the primaries before this one that were fenced at the same epoch or a later one."""
    reached = -1 if primary.epoch is None else primary.epoch

    def stood_here(row: ReplicaRow) -> bool:
        return row.state is ReplicaState.FENCED and (row.epoch is None or row.epoch >= reached)

    return len(list(takewhile(stood_here, (row for row in primaries if row.state.ended))))


def _failures(primaries: list[ReplicaRow], committed: LedgerEntry | None, *, since: float) -> int:
    """Count the primaries that failed in a row at the same epoch, or without a new commit in between.

    A failing primary may not have reported its last epoch, so the epochs of its row alone do not tell. Progress
    in between makes it another failure; a changed declaration or a start by the operator resets the count, a
    change of the tier does not.
    """
    ended = _list_ended(primaries, since)
    committed_at = float("inf") if committed is None else committed.committed_at

    def has_failed_there(row: ReplicaRow) -> bool:
        here = row.epoch == ended[0].epoch or (row.ended_at or 0.0) >= committed_at
        return row.state is ReplicaState.FAILED and here

    return len(list(takewhile(has_failed_there, ended)))


def _secondary_failures(secondaries: list[ReplicaRow], *, since: float) -> int:
    """Count the secondaries in a row that ended without a request to stop.

    Their epochs do not matter: each starts from the newest snapshot, so the next one is always further.
    """
    ended = _list_ended(secondaries, since)
    return len(list(takewhile(lambda row: row.state is not ReplicaState.STOPPED, ended)))


def _list_ended(rows: list[ReplicaRow], since: float) -> list[ReplicaRow]:
    return [row for row in rows if row.state.ended and row.registered_at >= since]
