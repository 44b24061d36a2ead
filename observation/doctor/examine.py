"""Reading everything that a stream needs to be whole; nothing is written, and a live stream may run on."""

from dataclasses import dataclass

from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.facts import NOTHING, Examined, LostInput, Skipped
from holdfast.ft_policies.doctor.findings import Finding, confirmed
from holdfast.ft_policies.errors import TransientError
from holdfast.observation.doctor.checkpoint import examine_checkpoint
from holdfast.observation.doctor.leftovers import examine_leftovers
from holdfast.observation.doctor.records import examine_records
from holdfast.observation.doctor.snapshots import examine_snapshots, with_their_damage
from holdfast.observation.doctor.sources import examine_source
from holdfast.observation.status import StreamSeen, observe
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import EndedBy, ReplicaRow
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project

AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was read of a stream, and what is wrong with it, the worst first."""

    examined: Examined
    findings: list[Finding]


def diagnosed(world: Project, stream: str, *, deep: bool = False) -> Diagnosis:
    """Look at a stream; what seems wrong with a live one is looked at again before it is claimed."""
    seen = examine(world, stream, deep=deep)
    findings = diagnose(seen)
    if findings and world.store.replicas.of(stream):
        SYSTEM_CLOCK.sleep(AGAIN_SECONDS)
        seen = examine(world, stream, deep=deep)
        findings = confirmed(findings, diagnose(seen))
    return Diagnosis(seen, findings)


def examine(world: Project, stream: str, *, deep: bool = False) -> Examined:
    """One look at a stream; `deep` reads all bytes of its snapshots."""
    declared = running_declaration(world, stream)
    seen = observe(world, stream)
    records = examine_records(world, declared)
    last = records.last_decided
    vaulted = examine_snapshots(world, stream, last_decided=last, deep=deep)
    shipped = vaulted.newest_of(_latest_primary(seen))
    checkpoint = examine_checkpoint(seen, shipped, deep=deep)
    snapshots = with_their_damage(vaulted, checkpoint)
    first = max((one.epoch for one in snapshots if one.good), default=NOTHING) + 1
    primary = None if seen.primary is None else seen.primary.id
    lost, away = _source(world, declared, first=first, last=last)
    return Examined(
        stream=stream,
        guarantee=declared.objective.guarantee,
        wanted=seen.wanted,
        primary=primary,
        primary_epoch=_reached(seen.primary),
        ended_by_doctor=primary is None and _ended_by_doctor(seen),
        checkpoint=checkpoint,
        snapshots=snapshots,
        without_manifest=vaulted.without_manifest,
        records=records,
        rows_in_all=world.store.epochs.rows_between(stream, 0, last),
        rows_per_second=_capacity(world, stream),
        lost_input=lost,
        source_away=away,
        skipped=_skipped(world, stream),
        leftovers=examine_leftovers(world, declared),
        # The last to be read: a restore that began while one looked is seen.
        restoring_to=_restoring_to(world, stream),
    )


def running_declaration(world: Project, stream: str) -> StreamDeclaration:
    """What it runs by, which may differ from its file; what is written, if it never ran."""
    row, now = world.store.streams.get(stream), world.config.stream(stream)
    return (
        world.config.resolve_paths(now)
        if row is None
        else StreamDeclaration.model_validate(row.declaration)
    )


def _source(
    world: Project, declared: StreamDeclaration, *, first: int, last: int
) -> tuple[tuple[LostInput, ...], str]:
    """What is lost; or why that is not known, which hides nothing else that is wrong."""
    try:
        return examine_source(world, declared, first=first, last=last), ""
    except TransientError as error:
        return (), f"{error}; {error.hint}"


def _restoring_to(world: Project, stream: str) -> int | None:
    restore = world.store.restores.newest(stream)
    return restore.epoch if restore is not None and restore.half_done else None


def _skipped(world: Project, stream: str) -> tuple[Skipped, ...]:
    return tuple(
        Skipped(
            gap=gap.gap,
            run=gap.run,
            epochs=tuple(sorted(gap.files)),
            files=sum(len(names) for names in gap.files.values()),
            rows=gap.rows,
            last_entered=gap.last_entered,
        )
        for gap in world.store.gaps.of(stream)
    )


def _reached(primary: ReplicaRow | None) -> int:
    return NOTHING if primary is None or primary.epoch is None else primary.epoch


def _latest_primary(seen: StreamSeen) -> str | None:
    row = seen.primary or seen.last_primary
    return None if row is None else row.id


def _ended_by_doctor(seen: StreamSeen) -> bool:
    last = seen.last_primary
    return last is not None and last.ended_by is EndedBy.REPAIR


def _capacity(world: Project, stream: str) -> float | None:
    """The most rows a second that the stream was seen to process."""
    samples = world.store.samples.series(stream, SampleName.PROCESSED_ROWS_PER_SECOND, limit=1000)
    return max((sample.value for sample in samples), default=0.0) or None
