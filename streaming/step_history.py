"""The steps of a stream's recoveries, as its replicas have measured them.

A step is cold in a replica that was launched as the primary, warm in a secondary that took over. What a
secondary does before that shares the machine with its primary, and takes longer. Samples are kept for some days only, so a replica whose start is among them no more is an old one: a
secondary that has waited long.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ft_policies.prediction.estimators import Observation, Readiness
from ft_policies.prediction.steps import RecoveryStep
from resources.control.lately import Primary
from resources.control.records import ReplicaState, Sample

DEPLOY, REHEARSE = "t_deploy_seconds", "t_rehearse_seconds"
DETECT, RECOVERY, REPLAY = "t_detect_seconds", "recovery_seconds", "t_replay_seconds"
READ = "t_read_snapshot_seconds"
SIZES = {READ: "read_snapshot_bytes", REPLAY: "replay_rows"}
STEPS = {
    DEPLOY: RecoveryStep.DEPLOY,
    READ: RecoveryStep.READ_SNAPSHOT,
    "t_wire_receive_seconds": RecoveryStep.WIRE_RECEIVE,
    "t_wire_send_seconds": RecoveryStep.WIRE_SEND,
    REPLAY: RecoveryStep.REPLAY,
}
STEP_SAMPLES = (REHEARSE, DETECT, RECOVERY, *STEPS, *SIZES.values())

ORCHESTRATION_SECONDS = 15.0  # a sensor's tick and the start of a run, before they are measured
LONGEST_LOSS_SECONDS = 600.0  # who is replaced later was not missed
SLACK_SECONDS = 1.0  # between what is measured and when it is written
AS_SURE_AS = 5  # how many observations a declared bound stands for
_LOST = frozenset({ReplicaState.DEAD, ReplicaState.FENCED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A whole recovery, from the last sign of life until the stream was level again, at `at`.

    `seconds` is 0 where the other replica was sending already. `cold`: a driver was launched for it.
    """

    seconds: float
    detect_seconds: float
    at: float
    cold: bool = False

    def counted(self, count_detection: bool) -> float:  # noqa: FBT001
        """Its seconds, with or without the time until somebody noticed."""
        return self.seconds if count_detection else max(self.seconds - self.detect_seconds, 0.0)


class StepHistory:
    """Samples and primaries of one stream, each oldest first."""

    def __init__(
        self, samples: Sequence[Sample], primaries: Sequence[Primary], *, heartbeat: float
    ) -> None:
        self._samples = samples
        self._heartbeat = heartbeat
        started = {one.replica for one in samples if one.name == DEPLOY}
        self._cold = started - {one.replica for one in samples if one.name == REHEARSE}
        self._sizes = {
            (one.name, one.replica, one.epoch): one.value
            for one in samples
            if one.name in SIZES.values()
        }
        self._losses = list(self._lost(primaries))
        self._taken_over: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._first_replay: dict[str, float] = {}
        for one in samples:
            if one.name == RECOVERY:
                self._taken_over[one.replica].append((one.at - one.value - SLACK_SECONDS, one.at))
            elif one.name == REPLAY:
                self._first_replay.setdefault(one.replica, one.at)

    def steps(self, *, lease: float) -> dict[RecoveryStep, tuple[Observation, ...]]:
        """What each step took, oldest first; without a detected failure, what the lease promises."""
        found = {step: tuple(self._of(name)) for name, step in STEPS.items()}
        warm = tuple(
            Observation(seconds=one.detect_seconds, at=one.at)
            for one in self._takeovers()
            if one.detect_seconds > 0
        )
        cold = tuple(
            Observation(seconds=s, readiness=Readiness.COLD, at=one.registered_at)
            for one, s in self._losses
        )
        detect = with_promises(warm + cold, lease=lease, heartbeat=self._heartbeat)
        return {RecoveryStep.DETECT: detect, **found}

    def recoveries(self) -> tuple[Recovery, ...]:
        """Takeovers by secondaries, and new drivers in place of lost ones, oldest first."""
        taken_over = list(self._takeovers())
        level_at = {one.replica: one.at for one in reversed(self._samples) if one.name == REPLAY}
        launched = [
            Recovery(
                seconds=level_at[one.replica] - one.registered_at + lost_seconds,
                detect_seconds=lost_seconds,
                cold=True,
                at=level_at[one.replica],
            )
            for one, lost_seconds in self._losses
            if one.replica in level_at
        ]
        return tuple(sorted(taken_over + launched, key=lambda one: one.at))

    def fastest_replay(self) -> float:
        """The most rows that a replay has managed in a second."""
        replays = self._of(REPLAY)
        return max((one.size / one.seconds for one in replays if one.seconds > 0), default=0.0)

    def _of(self, name: str) -> Iterable[Observation]:
        """A step whose size nobody has told says nothing, and no more does a start that read nothing.

        A replay of no rows does: the gate was opened all the same.
        """
        for one in self._samples:
            if one.name != name:
                continue
            size = self._sizes.get((SIZES[name], one.replica, one.epoch)) if name in SIZES else 0.0
            if size is not None and (size > 0 or name != READ):
                readiness = self._readiness(one)
                yield Observation(seconds=one.value, size=size, readiness=readiness, at=one.at)

    def _readiness(self, one: Sample) -> Readiness:
        if one.replica in self._cold:
            return Readiness.COLD
        if not any(begun <= one.at <= level for begun, level in self._taken_over[one.replica]):
            return Readiness.BESIDE
        processed = one.name == REPLAY and self._first_replay[one.replica] < one.at
        return Readiness.RUNNING if processed else Readiness.WARM

    def _takeovers(self) -> Iterator[Recovery]:
        """Those by secondaries, which tell their detection together with the whole.

        What a sensor detected counts until a new driver is launched: that is a loss.
        """
        detected: dict[str, float] = {}
        for one in self._samples:
            if one.name == DETECT:
                detected[one.replica] = one.value
            elif one.name == RECOVERY:
                noticed = detected.get(one.replica, 0.0)
                yield Recovery(seconds=one.value, detect_seconds=noticed, at=one.at)

    def _lost(self, primaries: Sequence[Primary]) -> Iterable[tuple[Primary, float]]:
        """Primaries that were launched in place of a lost one, and how long that one was silent.

        One that beat to its end was stuck, or told to go: that says nothing of a loss.
        """
        ended = [one for one in primaries if one.ended_at is not None]
        for one in primaries:
            if one.replica not in self._cold:
                continue
            earlier = [
                (p.ended_at or 0.0, p) for p in ended if (p.ended_at or 0.0) <= one.registered_at
            ]
            ended_at, before = max(earlier, key=lambda pair: pair[0], default=(0.0, one))
            if before.state not in _LOST or before.heartbeat_at is None:
                continue
            if ended_at - before.heartbeat_at <= 2 * self._heartbeat:
                continue
            silent = one.registered_at - before.heartbeat_at
            if silent <= LONGEST_LOSS_SECONDS:
                yield one, silent


def with_promises(
    detected: Sequence[Observation], *, lease: float, heartbeat: float
) -> tuple[Observation, ...]:
    """The same, after what the lease promises where no failure was detected, warm or cold."""
    promises: list[Observation] = []
    for cold in (False, True):
        if not any(one.cold is cold for one in detected):
            promised = lease + heartbeat + (ORCHESTRATION_SECONDS if cold else 0.0)
            readiness = Readiness.COLD if cold else Readiness.WARM
            promises += [Observation(seconds=promised, readiness=readiness)] * AS_SURE_AS
    return (*promises, *detected)
