"""The steps of a stream's recoveries, as its replicas have measured them.

A step is cold in a replica that was launched as the primary, warm in a secondary that took over. What a
secondary does before it takes over shares the machine with its primary, and takes longer. Samples are
kept for some days only: a replica without a sample of its deployment is taken for an old secondary.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.timings import Timings
from holdfast.resources.control_store.records import LedgerEntry, ReplicaState, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.tables.recent import Primary

SIZES = {
    SampleName.READ_SNAPSHOT_SECONDS: SampleName.READ_SNAPSHOT_BYTES,
    SampleName.REPLAY_SECONDS: SampleName.REPLAY_ROWS,
}
STEPS = {
    SampleName.DEPLOY_SECONDS: RecoveryStep.DEPLOY,
    SampleName.READ_SNAPSHOT_SECONDS: RecoveryStep.READ_SNAPSHOT,
    SampleName.WIRE_RECEIVE_SECONDS: RecoveryStep.WIRE_RECEIVE,
    SampleName.WIRE_SEND_SECONDS: RecoveryStep.WIRE_SEND,
    SampleName.REPLAY_SECONDS: RecoveryStep.REPLAY,
    SampleName.FIRST_COMMIT_SECONDS: RecoveryStep.FIRST_COMMIT,
}
STEP_SAMPLES = (
    SampleName.COMMIT_PAUSE_SECONDS,
    SampleName.REHEARSE_SECONDS,
    SampleName.DETECT_SECONDS,
    SampleName.RECOVERY_SECONDS,
    *STEPS,
    *SIZES.values(),
)

LONGEST_LOSS_SECONDS = 600.0  # a primary that is replaced later than that was stopped, not lost
SLACK_SECONDS = 1.0  # between a measurement and the time of its sample
PROMISE_WEIGHT = 5  # how many observations a declared bound stands for
MOST_UNCOMMITTED = (
    100  # epochs: how many were decided at most, and not committed, when a primary was lost
)
_LOST = frozenset({ReplicaState.DEAD, ReplicaState.FENCED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A whole recovery, from the last heartbeat of the primary until the first new commit, at `at`.

    If the other replica was already sending, `seconds` is the longest pause between two commits meanwhile.
    `cold`: a new driver was launched.
    """

    seconds: float
    detect_seconds: float
    at: float
    cold: bool = False

    def count_seconds(self, count_detection: bool) -> float:  # noqa: FBT001
        """The seconds, with or without the time until the failure was detected."""
        return self.seconds if count_detection else max(self.seconds - self.detect_seconds, 0.0)


class StepHistory:
    """Samples and primaries of one stream, each oldest first; `read_ledger` reads its entries from first to last."""

    def __init__(
        self,
        samples: Sequence[Sample],
        primaries: Sequence[Primary],
        timings: Timings,
        *,
        read_ledger: Callable[[int, int], Sequence[LedgerEntry]],
    ) -> None:
        self._samples = samples
        self._read_ledger = read_ledger
        self._timings = timings
        self._cold = _replicas_with(SampleName.DEPLOY_SECONDS, samples) - _replicas_with(
            SampleName.REHEARSE_SECONDS, samples
        )
        self._sizes = {
            (sample.name, sample.replica, sample.epoch): sample.value
            for sample in samples
            if sample.name in SIZES.values()
        }
        self._losses = list(self._find_losses(primaries))
        self._taken_over: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._first_replay: dict[str, float] = {}
        for sample in samples:
            if sample.name == SampleName.RECOVERY_SECONDS:
                started_at = sample.at - sample.value - SLACK_SECONDS
                self._taken_over[sample.replica].append((started_at, sample.at))
            elif sample.name == SampleName.REPLAY_SECONDS:
                self._first_replay.setdefault(sample.replica, sample.at)

    def steps(self) -> dict[RecoveryStep, tuple[Observation, ...]]:
        """The times of each step, oldest first; without a detected failure, the bounds that the lease promises."""
        observations = {step: tuple(self._observe(name)) for name, step in STEPS.items()}
        warm = tuple(
            Observation(seconds=takeover.detect_seconds, at=takeover.at)
            for takeover in self._takeovers()
            if takeover.detect_seconds > 0
        )
        cold = tuple(
            Observation(seconds=seconds, readiness=Readiness.COLD, at=primary.registered_at)
            for primary, seconds in self._losses
        )
        detect = add_promises(warm + cold, self._timings)
        pauses = tuple(
            Observation(seconds=sample.value, readiness=Readiness.SENDING, at=sample.at)
            for sample in self._samples
            if sample.name == SampleName.COMMIT_PAUSE_SECONDS
        )
        observations[RecoveryStep.FIRST_COMMIT] += pauses
        return {RecoveryStep.DETECT: detect, **observations}

    def recoveries(self) -> tuple[Recovery, ...]:
        """Takeovers by secondaries, and new drivers in place of lost ones, oldest first."""
        recoveries = [*self._takeovers(), *self._launches()]
        return tuple(sorted(recoveries, key=lambda recovery: recovery.at))

    def _launches(self) -> Iterator[Recovery]:
        """New drivers that committed a new epoch in place of a lost one; one that died before has recovered nothing."""
        for primary, lost_seconds in self._losses:
            back_at = self._committed_at(primary.replica)
            if back_at is not None:
                yield Recovery(
                    seconds=back_at - primary.registered_at + lost_seconds,
                    detect_seconds=lost_seconds,
                    cold=True,
                    at=back_at,
                )

    def _committed_at(self, replica: str) -> float | None:
        """When a replica committed its first new epoch: as it measured that, or as the ledger has it.

        It measures nothing if the epoch was one of its replay, or if it died at once.
        """
        measured = self._first(SampleName.FIRST_COMMIT_SECONDS, replica)
        replayed = self._first(SampleName.REPLAY_SECONDS, replica)
        if measured is not None:
            return measured.at
        if replayed is None or replayed.epoch is None:
            return None
        entries = self._read_ledger(replayed.epoch - MOST_UNCOMMITTED, replayed.epoch + 1)
        return next((entry.committed_at for entry in entries if entry.replica == replica), None)

    def _first(self, name: SampleName, replica: str) -> Sample | None:
        """The first sample of this name that a replica wrote."""
        own = (s for s in self._samples if s.name == name and s.replica == replica)
        return next(own, None)

    def fastest_replay(self) -> float:
        """The highest rate of a replay in rows per second; 0 without replays."""
        replays = [
            replay for replay in self._observe(SampleName.REPLAY_SECONDS) if replay.seconds > 0
        ]
        return max((replay.size / replay.seconds for replay in replays), default=0.0)

    def _observe(self, name: SampleName) -> Iterable[Observation]:
        """The observations of a step, without those of unknown size and without restores of no bytes.

        A replay of no rows counts: the gate was opened as well.
        """
        for sample in self._samples:
            if sample.name != name:
                continue
            size = self._size_of(sample, name)
            if size is not None and (size > 0 or name is not SampleName.READ_SNAPSHOT_SECONDS):
                yield Observation(
                    seconds=sample.value, size=size, readiness=self._readiness(sample), at=sample.at
                )

    def _size_of(self, sample: Sample, name: SampleName) -> float | None:
        """The size of the step's work: 0 for steps without a size, `None` if it is unknown."""
        if name not in SIZES:
            return 0.0
        return self._sizes.get((SIZES[name], sample.replica, sample.epoch))

    def _readiness(self, sample: Sample) -> Readiness:
        if sample.replica in self._cold:
            return Readiness.COLD
        takeovers = self._taken_over[sample.replica]
        began_at = [began for began, ended_at in takeovers if began <= sample.at <= ended_at]
        if not began_at:
            return Readiness.BESIDE
        replayed_at = self._first_replay.get(sample.replica, sample.at)
        processed = {
            SampleName.REPLAY_SECONDS: replayed_at < sample.at,
            SampleName.FIRST_COMMIT_SECONDS: replayed_at < began_at[0],
        }
        return Readiness.RUNNING if processed.get(SampleName(sample.name)) else Readiness.WARM

    def _takeovers(self) -> Iterator[Recovery]:
        """Takeovers by secondaries, each with the last detection that the same replica wrote before it.

        No takeover follows a detection by the sensor: it launches a new driver, which counts as a loss. Both may have
        the same time, as SQLite's clock counts milliseconds.
        """
        detected: dict[str, float] = {}
        for sample in sorted(
            self._samples,
            key=lambda sample: (sample.at, sample.name == SampleName.RECOVERY_SECONDS),
        ):
            if sample.name == SampleName.DETECT_SECONDS:
                detected[sample.replica] = sample.value
            elif sample.name == SampleName.RECOVERY_SECONDS:
                detect_seconds = detected.get(sample.replica, 0.0)
                yield Recovery(seconds=sample.value, detect_seconds=detect_seconds, at=sample.at)

    def _find_losses(self, primaries: Sequence[Primary]) -> Iterable[tuple[Primary, float]]:
        """Primaries that replaced a lost primary, each with the seconds that the lost one was silent."""
        for primary in primaries:
            if primary.replica not in self._cold:
                continue
            heartbeat_at = self._lost_heartbeat(primary, primaries)
            if heartbeat_at is None:
                continue
            silent_seconds = primary.registered_at - heartbeat_at
            if silent_seconds <= LONGEST_LOSS_SECONDS:
                yield primary, silent_seconds

    def _lost_heartbeat(self, successor: Primary, primaries: Sequence[Primary]) -> float | None:
        """The last heartbeat of the primary before this one; `None` if it was not lost.

        A primary whose heartbeats went on until its end was stuck or stopped, not lost.
        """
        earlier = [
            (primary.ended_at, primary)
            for primary in primaries
            if primary.ended_at is not None and primary.ended_at <= successor.registered_at
        ]
        if not earlier:
            return None
        ended_at, before = max(earlier, key=lambda pair: pair[0])
        if before.state not in _LOST or before.heartbeat_at is None:
            return None
        silent = ended_at - before.heartbeat_at > 2 * self._timings.heartbeat_seconds
        return before.heartbeat_at if silent else None


def _replicas_with(name: SampleName, samples: Iterable[Sample]) -> set[str]:
    return {sample.replica for sample in samples if sample.name == name}


def add_promises(detected: Sequence[Observation], timings: Timings) -> tuple[Observation, ...]:
    """Add the bounds that the lease promises, warm or cold, where no failure was detected yet."""
    promises: list[Observation] = []
    for cold in (False, True):
        if not any(observation.cold is cold for observation in detected):
            promised = timings.dispatch_seconds if cold else timings.detect_seconds
            readiness = Readiness.COLD if cold else Readiness.WARM
            promises += [Observation(seconds=promised, readiness=readiness)] * PROMISE_WEIGHT
    return (*promises, *detected)
