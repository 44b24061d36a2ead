"""How a recovery went: when the stream was level again, and when its tier was held again.

Several runs, and the secondary that took over, may each have done a part of it. So the times come
from what all of them wrote, not from what the last run did.
"""

from dataclasses import dataclass

from ft_policies.recovery import AwaitLevel
from ft_policies.tiers import Tier
from orchestration.reporting import step_told
from resources.control.records import Incident, JournalLine, Phase, ReplicaRow, Sample
from resources.project import Project
from streaming.observing import observe
from streaming.recovery_incidents import is_of_primary
from streaming.step_history import STEPS

RECOVERY_SAMPLE = "recovery_seconds"
REPORT_SECONDS = 5.0  # a sensor may open the incident a moment after the replica has measured


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """How long a recovery took, counted from the last sign of life.

    `recovery_seconds` ends when the stream was level; it is `None` if it never stopped.
    `redundancy_seconds` ends when the tier was held again, or its secondary back and paused.
    `primary_steps` is what the primary did to become level, `done` what playbooks did.
    """

    detect_seconds: float | None
    recovery_seconds: float | None
    redundancy_seconds: float
    tier: Tier
    covered: Tier
    primary_steps: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    paused: bool = False
    wanted: bool = True

    @property
    def timeline(self) -> str:
        """Who did what and how long it took, in one line."""
        noticed = (
            () if self.detect_seconds is None else (f"noticed after {self.detect_seconds:.2f} s",)
        )
        parts = (noticed, self.primary_steps, self.done)
        return "; ".join(", ".join(part) for part in parts if part) or "nothing to do"

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        held = f"{self.tier} held again after {self.redundancy_seconds:.1f} s"
        if not self.wanted:
            held = f"stopped after {self.redundancy_seconds:.1f} s"
        if self.paused:
            held = (
                f"the secondary back after {self.redundancy_seconds:.1f} s, "
                f"paused, good for {self.covered}"
            )
        if self.recovery_seconds is None:
            return held
        recovered = f"recovered {self.recovery_seconds:.1f} s after the last sign of life"
        return recovered if self.tier is Tier.PASSIVE_REPLICATION else f"{recovered}, {held}"


def outcome_of(world: Project, incident: Incident) -> RecoveryOutcome:
    """The outcome of an incident whose stream has just become well."""
    detect = incident.detail.get("t_detect_seconds")
    lost_at = _lost_at(incident, detect or 0.0)
    done = _done(world, incident)
    until_now = world.store.now() - lost_at
    seen = observe(world, incident.stream)
    look = seen.secondary_look()
    recovery = _measured(world, incident, lost_at)
    if recovery is None and is_of_primary(incident):
        level_at = _level_at(done)
        recovery = until_now if level_at is None else level_at - lost_at
    return RecoveryOutcome(
        detect_seconds=detect,
        recovery_seconds=recovery,
        redundancy_seconds=until_now,
        primary_steps=_primary_steps(world, seen.primary, since_at=_since(incident, lost_at)),
        done=tuple(f"{step_told(one.step, one.detail)} {one.seconds or 0.0:.2f} s" for one in done),
        tier=seen.tier,
        covered=seen.covered,
        wanted=seen.wanted,
        paused=look is not None and look.paused and not seen.covers_its_tier,
    )


def _lost_at(incident: Incident, detect_seconds: float) -> float:
    """When the last sign of life was; a replica that took over reports once it is level.

    One that had sent all along reports no time at all.
    """
    reported = float(incident.detail.get(RECOVERY_SAMPLE) or 0.0)
    return incident.opened_at - max(detect_seconds, reported)


def _measured(world: Project, incident: Incident, lost_at: float) -> float | None:
    """What a replica that took over measured, on account of this incident or in the midst of it.

    It counts from the last renewal of the lease. A primary that was stuck renewed it to the end, so
    if a sensor saw the loss, the time counts from the last sign that the sensor saw; unless the
    replica had sent all along.
    """
    reported, sample = (
        incident.detail.get(RECOVERY_SAMPLE),
        _last_takeover(world, incident, lost_at),
    )
    if sample is None:
        return None if reported is None else float(reported)
    seen_by_sensor = reported is None and is_of_primary(incident)
    return sample.at - lost_at if seen_by_sensor and sample.value > 0.0 else sample.value


def _last_takeover(world: Project, incident: Incident, lost_at: float) -> Sample | None:
    """The last measurement of a takeover since the loss."""
    since_at = _since(incident, lost_at)
    samples = world.store.samples.series(incident.stream, RECOVERY_SAMPLE, since_at=since_at)
    return samples[-1] if samples else None


def _since(incident: Incident, lost_at: float) -> float:
    """From when on measurements are of this loss.

    A secondary may be missing because it has taken over; then it measured a moment before.
    """
    return lost_at if is_of_primary(incident) else lost_at - REPORT_SECONDS


def _primary_steps(
    world: Project, primary: ReplicaRow | None, *, since_at: float
) -> tuple[str, ...]:
    """What the primary measured of its own way here; one that was there before has nothing."""
    if primary is None:
        return ()
    latest = world.store.samples.latest(primary.stream, replica=primary.id)
    return tuple(
        f"{step} {latest[name].value:.2f} s"
        for name, step in STEPS.items()
        if name in latest and latest[name].at >= since_at
    )


def _done(world: Project, incident: Incident) -> list[JournalLine]:
    """The steps that were carried out on account of the incident, by all of its runs."""
    return [
        line
        for line in world.store.journal.of(incident.stream)
        if line.incident == incident.id and line.phase is Phase.DONE
    ]


def _level_at(done: list[JournalLine]) -> float | None:
    """When the last wait for a new primary to become level ended."""
    waits = [line.at for line in done if line.step == AwaitLevel.__name__]
    return waits[-1] if waits else None
