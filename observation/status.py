"""Looking at a stream: what its replicas say of themselves, and what others see of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from holdfast.ft_policies.health import HealthPolicy, PrimarySeen, SecondarySeen, Verdict
from holdfast.ft_policies.playbooks.recover.decide import FAILURES_BEFORE_GIVING_UP, next_step
from holdfast.ft_policies.playbooks.recover.migration import (
    MOST_BEHIND,
    REPLAY_SHARE,
    MigrationFacts,
    Protocol,
)
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts
from holdfast.ft_policies.tiers import OFF, Tier, covered
from holdfast.resources.control_store.records import (
    DesiredState,
    Epoch,
    Lease,
    LedgerEntry,
    ReplicaRow,
    ReplicaState,
    Rollout,
    Slot,
    StreamRow,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import process_state
from holdfast.resources.project import Project
from holdfast.streaming.sinks.ledger_writer import DIGEST_DIFFERS

LATELY = 100  # epochs: what a replica has kept back is compared a moment after it was committed
_LOST = frozenset({ReplicaState.FAILED, ReplicaState.DEAD, ReplicaState.FENCED})


def migrating(
    store: ControlStore,
    rollout: Rollout,
    *,
    before: int,
    at: float,
    committed: LedgerEntry | None,
    replicas: Sequence[ReplicaRow],
) -> MigrationFacts:
    """The rollout that is under way, as one look shows it; `before` is what the stream ran until then."""
    targets = [row for row in replicas if row.rollout == rollout.rollout]
    target = next((row for row in targets if not row.state.ended), None)
    return MigrationFacts(
        rollout=rollout.rollout,
        protocol=rollout.protocol,
        before=before,
        caught_up=target is not None and _has_caught_up(store, rollout, target, committed, at),
        overdue=at > rollout.deadline_at,
        differs=None if rollout.may_differ else _difference(store, rollout, target),
        failed=_failure(targets),
    )


def _has_caught_up(
    store: ControlStore,
    rollout: Rollout,
    target: ReplicaRow,
    committed: LedgerEntry | None,
    at: float,
) -> bool:
    """Whether it has come as far as its protocol asks, and has computed something to be held against."""
    if committed is None or rollout.protocol is Protocol.LEGACY:
        return True
    if rollout.protocol is Protocol.REPLAY and at > _at_share(rollout, REPLAY_SHARE):
        return store.ledger.has_copy(target.stream, target.id, first=0)
    done = -1 if target.epoch is None else target.epoch
    near = committed.epoch - done <= MOST_BEHIND[rollout.protocol]
    lately = committed.epoch - LATELY
    return near and store.ledger.has_copy(target.stream, target.id, first=lately)


def _at_share(rollout: Rollout, share: float) -> float:
    """When that much of its time is over."""
    return rollout.begun_at + share * (rollout.deadline_at - rollout.begun_at)


def _difference(store: ControlStore, rollout: Rollout, target: ReplicaRow | None) -> str | None:
    """What the target computed otherwise than the old primary had committed it."""
    if target is None:
        return None
    return next(
        (
            str(one.detail.get("reason"))
            for one in store.incidents.of(rollout.stream)
            if one.kind == DIGEST_DIFFERS and one.replica == target.id
        ),
        None,
    )


def _failure(targets: Sequence[ReplicaRow]) -> str | None:
    """Why there is no use in another target: the last one failed as the primary, or too many were lost."""
    lost = [row for row in targets if row.state in _LOST]
    if not lost:
        return None
    last = max(lost, key=lambda row: row.ended_at or 0.0)
    as_primary = last.slot is Slot.PRIMARY and last.state is ReplicaState.FAILED
    return last.reason if as_primary or len(lost) >= FAILURES_BEFORE_GIVING_UP else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSeen:
    """Everything that one look at a stream shows.

    `tier` is the one that people want now, `covered` the one that its live replicas are good for.
    """

    name: str
    at: float
    wanted: bool
    verdict: Verdict
    primary: ReplicaRow | None
    last_primary: ReplicaRow | None
    tier: Tier
    covered: Tier
    secondary: ReplicaRow | None
    secondary_verdict: Verdict | None
    last_secondary: ReplicaRow | None
    lease: Lease | None
    epoch: Epoch | None
    committed: LedgerEntry | None
    failures_in_a_row: int
    secondary_failures_in_a_row: int
    rollout: int
    migration: MigrationFacts | None

    @property
    def is_settled(self) -> bool:
        """Whether no playbook has anything to do; a secondary may have paused all the same."""
        return next_step(self.observed()) is None

    @property
    def covers_its_tier(self) -> bool:
        """Whether the live replicas cover the tier that the stream should have."""
        return self.covered.strength >= self.tier.strength

    def observed(self) -> RecoverFacts:
        """The part of it that the recover playbook decides on."""
        return RecoverFacts(
            verdict=self.verdict,
            primary=None if self.primary is None else self.primary.id,
            token=0 if self.lease is None else self.lease.token,
            failures_in_a_row=self.failures_in_a_row,
            last_failure="" if self.last_primary is None else self.last_primary.reason,
            tier=self.tier,
            secondary=self.secondary_look(),
            secondary_failures_in_a_row=self.secondary_failures_in_a_row,
            last_secondary_failure=""
            if self.last_secondary is None
            else self.last_secondary.reason,
            rollout=self.rollout,
            primary_rollout=0 if self.primary is None else self.primary.rollout,
            migration=self.migration,
        )

    def secondary_look(self) -> SecondaryView | None:
        """The live secondary, as the recover playbook sees it."""
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
            rollout=row.rollout,
        )


def observe(
    world: Project, name: str, *, secondaries_since: float = 0.0, as_wanted: bool = False
) -> StreamSeen:
    """Look at a stream now; older failures of secondaries than `secondaries_since` are forgiven.

    With `as_wanted` it is judged as if somebody wanted it to run, whatever is desired.
    """
    policy = HealthPolicy(world.timings(name))
    store = world.store
    row = store.streams.get(name)
    replicas = store.replicas.of(name, live=False)
    primaries, secondaries = _in(Slot.PRIMARY, replicas), _in(Slot.SECONDARY, replicas)
    primary, secondary = _live(primaries), _live(secondaries)
    lease = store.leases.get(name)
    at = store.now()
    wanted = as_wanted or (row is not None and row.desired is DesiredState.RUNNING)
    since = 0.0 if row is None else row.changed_at
    verdict = None if secondary is None else _judged(policy, store, secondary, at)
    committed, rollout = store.ledger.last(name), store.rollouts.open(name)
    return StreamSeen(
        name=name,
        at=at,
        wanted=wanted,
        verdict=policy.judge(
            wanted=wanted,
            primary=None if primary is None else _seen(primary, primaries, lease, at),
        ),
        primary=primary,
        last_primary=primaries[0] if primaries else None,
        tier=_tier(world, name, row),
        covered=_covered(secondary, verdict),
        secondary=secondary,
        secondary_verdict=verdict,
        last_secondary=secondaries[0] if secondaries else None,
        lease=lease,
        epoch=store.epochs.last(name),
        committed=committed,
        failures_in_a_row=_failures(primaries, since=since),
        secondary_failures_in_a_row=_secondary_failures(
            secondaries, since=max(since, secondaries_since)
        ),
        rollout=_rollout(row, rollout),
        migration=None
        if rollout is None
        else migrating(
            store,
            rollout,
            before=0 if row is None else row.rollout,
            at=at,
            committed=committed,
            replicas=replicas,
        ),
    )


def _rollout(row: StreamRow | None, under_way: Rollout | None) -> int:
    """The one that replicas which are launched now should run."""
    if under_way is not None:
        return under_way.rollout
    return 0 if row is None else row.rollout


def _in(slot: Slot, replicas: list[ReplicaRow]) -> list[ReplicaRow]:
    """The replicas that have or had the slot, the live one first, then from the last end back.

    A secondary that took over may be older than the primary it follows, so age is no order.
    """
    rows = [row for row in replicas if row.slot is slot]
    return sorted(rows, key=lambda row: float("-inf") if row.ended_at is None else -row.ended_at)


def _live(rows: list[ReplicaRow]) -> ReplicaRow | None:
    return next((row for row in rows if not row.state.ended), None)


def _tier(world: Project, name: str, row: StreamRow | None) -> Tier:
    return world.config.stream(name).tier if row is None else row.tier


def _covered(secondary: ReplicaRow | None, verdict: Verdict | None) -> Tier:
    """One that leaves takes nothing over any more."""
    if secondary is None or verdict is None or verdict.health.failed:
        return Tier.PASSIVE_REPLICATION
    if secondary.state is ReplicaState.STOPPING:
        return Tier.PASSIVE_REPLICATION
    return covered(secondary.observed)


def _seen(
    primary: ReplicaRow, primaries: list[ReplicaRow], lease: Lease | None, at: float
) -> PrimarySeen:
    """A secondary that took over began anew then: what it did before says nothing of it now."""
    began_at = primary.registered_at
    if lease is not None and lease.holder == primary.id:
        began_at = max(began_at, lease.taken_at)
    progressed_at = primary.progressed_at
    if progressed_at is not None and progressed_at < began_at:
        progressed_at = None
    return PrimarySeen(
        id=primary.id,
        process=process_state(primary),
        registered_age=at - began_at,
        heartbeat_age=None if primary.heartbeat_at is None else at - primary.heartbeat_at,
        progress_age=None if progressed_at is None else at - progressed_at,
        processing=primary.observed.process,
        level=primary.state is not ReplicaState.STARTING,
        given_up_before=_given_up_at_the_same_epoch(primary, primaries),
    )


def _judged(policy: HealthPolicy, store: ControlStore, row: ReplicaRow, at: float) -> Verdict:
    stirred = [row.registered_at, row.progressed_at]
    for change in store.tiers.history(row.stream, limit=1):
        stirred += [change.at, change.reached_at]
    return policy.judge_secondary(
        SecondarySeen(
            id=row.id,
            process=process_state(row),
            registered_age=at - row.registered_at,
            heartbeat_age=None if row.heartbeat_at is None else at - row.heartbeat_at,
            quiet_seconds=at - max(moment for moment in stirred if moment is not None),
            leaving=row.desired == OFF or row.state is ReplicaState.STOPPING,
            deployed=row.observed.deploy,
            processing=row.observed.process,
            paused=row.state is ReplicaState.PAUSED,
        )
    )


def _given_up_at_the_same_epoch(primary: ReplicaRow, primaries: list[ReplicaRow]) -> int:
    """Count the primaries before this one that were fenced no further than it has come."""
    reached = -1 if primary.epoch is None else primary.epoch

    def stood_here(row: ReplicaRow) -> bool:
        return row.state is ReplicaState.FENCED and (row.epoch is None or row.epoch >= reached)

    return len(list(takewhile(stood_here, (row for row in primaries if row.state.ended))))


def _failures(primaries: list[ReplicaRow], *, since: float) -> int:
    """Count the primaries that failed in a row at the same epoch.

    One that made progress is another failure, not the same again; and a changed declaration or a
    start by hand is a new beginning.
    """
    ended = _ended(primaries, since)

    def failed_there(row: ReplicaRow) -> bool:
        return row.state is ReplicaState.FAILED and row.epoch == ended[0].epoch

    return len(list(takewhile(failed_there, ended)))


def _secondary_failures(secondaries: list[ReplicaRow], *, since: float) -> int:
    """Count the secondaries in a row that did not leave because they were told to.

    How far each has come says nothing: it begins at the newest snapshot, so the next one is further
    whatever befell the last.
    """
    ended = _ended(secondaries, since)
    return len(list(takewhile(lambda row: row.state is not ReplicaState.STOPPED, ended)))


def _ended(rows: list[ReplicaRow], since: float) -> list[ReplicaRow]:
    return [row for row in rows if row.state.ended and row.registered_at >= since]
