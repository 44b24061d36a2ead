"""The examination of a stream by the doctor: it reads all parts, writes nothing, and lets the stream run."""

from dataclasses import dataclass

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.facts import NOTHING, ExaminedStream, LostInput, Skipped
from holdfast.ft_policies.doctor.findings import Finding, confirm_findings
from holdfast.ft_policies.errors import TransientError
from holdfast.observation.doctor.checkpoint import examine_checkpoint
from holdfast.observation.doctor.leftovers import examine_leftovers
from holdfast.observation.doctor.records import examine_records
from holdfast.observation.doctor.snapshots import examine_snapshots, match_damage
from holdfast.observation.doctor.sources import examine_source
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.resources.control_store.records import EndedBy, ReplicaRow
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project

AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor read of a stream, and its findings, the worst first."""

    examined: ExaminedStream
    findings: list[Finding]


def diagnose_stream(project: Project, stream: str, *, deep: bool = False) -> Diagnosis:
    """Examine and diagnose a stream; of a live stream, only findings that a second look confirms count."""
    examined = examine(project, stream, deep=deep)
    findings = diagnose(examined)
    if findings and project.store.replicas.of(stream):
        project.clock.sleep(AGAIN_SECONDS)
        examined = examine(project, stream, deep=deep)
        findings = confirm_findings(findings, diagnose(examined))
    return Diagnosis(examined, findings)


def examine(project: Project, stream: str, *, deep: bool = False) -> ExaminedStream:
    """Read a stream once; `deep` reads all bytes of its snapshots."""
    declared = running_declaration(project, stream)
    status = observe_stream(project, stream)
    records = examine_records(project, declared)
    last = records.last_decided
    stored = examine_snapshots(project, stream, last_decided=last, deep=deep)
    shipped = stored.newest_of(_latest_primary(status))
    checkpoint = examine_checkpoint(status, shipped, deep=deep)
    snapshots = match_damage(stored, checkpoint)
    first = max((snapshot.epoch for snapshot in snapshots if snapshot.good), default=NOTHING) + 1
    primary = None if status.primary is None else status.primary.id
    lost, away = _source(project, declared, first=first, last=last)
    return ExaminedStream(
        stream=stream,
        guarantee=declared.objective.guarantee,
        wanted=status.wanted,
        primary=primary,
        primary_epoch=_find_reached_epoch(status.primary),
        ended_by_doctor=primary is None and _ended_by_doctor(status),
        checkpoint=checkpoint,
        snapshots=snapshots,
        without_manifest=stored.without_manifest,
        records=records,
        rows_in_all=project.store.epochs.rows_between(stream, 0, last),
        rows_per_second=_capacity(project, stream),
        lost_input=lost,
        source_away=away,
        skipped=_list_skipped(project, stream),
        leftovers=examine_leftovers(project, declared),
        # Read last, so that a restore that began during the examination is not missed.
        restoring_to=_restoring_to(project, stream),
    )


def running_declaration(project: Project, stream: str) -> StreamDeclaration:
    """The declaration that the stream runs by, which may differ from its file; the file's, if it never ran."""
    row, now = project.store.streams.get(stream), project.config.stream(stream)
    return (
        project.config.resolve_paths(now)
        if row is None
        else StreamDeclaration.model_validate(row.declaration)
    )


def _source(
    project: Project, declared: StreamDeclaration, *, first: int, last: int
) -> tuple[tuple[LostInput, ...], str]:
    """The lost input, or the reason why the source cannot be read: other findings are shown anyway."""
    try:
        return examine_source(project, declared, first=first, last=last), ""
    except TransientError as error:
        return (), f"{error}; {error.hint}"


def _restoring_to(project: Project, stream: str) -> int | None:
    restore = project.store.restores.newest(stream)
    return restore.epoch if restore is not None and restore.half_done else None


def _list_skipped(project: Project, stream: str) -> tuple[Skipped, ...]:
    return tuple(
        Skipped(
            gap=gap.gap,
            run=gap.run,
            epochs=tuple(sorted(gap.files)),
            files=gap.file_count,
            rows=gap.rows,
            last_entered=gap.last_entered,
        )
        for gap in project.store.gaps.of(stream)
        if not gap.is_of_state
    )


def _find_reached_epoch(primary: ReplicaRow | None) -> int:
    return NOTHING if primary is None or primary.epoch is None else primary.epoch


def _latest_primary(status: StreamStatus) -> str | None:
    row = status.primary or status.last_primary
    return None if row is None else row.id


def _ended_by_doctor(status: StreamStatus) -> bool:
    last = status.last_primary
    return last is not None and last.ended_by is EndedBy.REPAIR


def _capacity(project: Project, stream: str) -> float | None:
    """The highest measured processing rate in rows per second; `None` without samples."""
    samples = project.store.samples.series(stream, SampleName.PROCESSED_ROWS_PER_SECOND, limit=1000)
    return max((sample.value for sample in samples), default=0.0) or None
