"""Which input files of a stream no recovery and no restore can need any more, and deleting them.

A file may be input of several streams (a fork reads what its original reads): it is needed as long as one of
them needs it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import ValidationError

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.retention import MarginVerdict, first_epoch_to_keep
from holdfast.observation.growth import epoch_facts, find_margin, last_position, open_files
from holdfast.resources.control_store.records import JsonObject
from holdfast.resources.project import Project
from holdfast.resources.vault.catalogue import list_restorable
from holdfast.streaming.sources.folder import ListedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """The input files of a stream that are there: those that are needed, and the others.

    Epochs from `first_epoch` on may be computed again.
    """

    stream: str
    first_epoch: int
    needed: tuple[ListedFile, ...]
    unneeded: tuple[ListedFile, ...]
    margin: MarginVerdict


def read_inputs(project: Project, stream: str) -> InputFiles:
    """Tell the needed input of a stream from the rest; `PermanentError` if its source has no files."""
    declared = _files_source(project, stream)
    files = open_files(project, declared).files(last_position(project, stream))
    needed: set[ListedFile] = set()
    for reader, sources in _readers(project, name_place(project, declared)).items():
        needed |= _find_needed(project, reader, sources, files)
    return InputFiles(
        stream=stream,
        first_epoch=_first_epoch(project, stream),
        needed=tuple(file for file in files if file in needed),
        unneeded=tuple(file for file in files if file not in needed),
        margin=find_margin(project, stream),
    )


def delete_unneeded(project: Project, inputs: InputFiles) -> None:
    """Delete the files that are not needed, and no other: one that has changed since it was listed stays."""
    source = open_files(project, _files_source(project, inputs.stream))
    for file in inputs.unneeded:
        source.delete(file)


def _find_needed(
    project: Project,
    stream: str,
    declared: Sequence[FilesDeclaration],
    files: Sequence[ListedFile],
) -> set[ListedFile]:
    """The files that a stream has not read yet, that it may read again, or that are not those it has read."""
    first = _first_epoch(project, stream)
    assigned = project.store.epoch_files.find(stream, [file.name for file in files])
    done = {
        ListedFile(file.name, file.size, file.changed_ns)
        for file in assigned
        if file.epoch < first and file.size is not None and file.changed_ns is not None
    }
    sources = [open_files(project, source) for source in declared]
    return {
        file
        for file in files
        if file not in done and any(source.is_input(file.name) for source in sources)
    }


def _first_epoch(project: Project, stream: str) -> int:
    restorable = list_restorable(project.store, stream, project.vault(stream))
    snapshots = [record.epoch for record in restorable]
    return first_epoch_to_keep(epoch_facts(project, stream, snapshots))


def _readers(project: Project, place: str) -> dict[str, list[FilesDeclaration]]:
    """The streams that read a folder, by their files or as they were started: those differ until a migration."""
    readers: dict[str, list[FilesDeclaration]] = {}
    config = project.config
    in_files = [stream for name, stream in config.streams.items() if name not in config.missing]
    for stream in (*in_files, *_list_started(project)):
        source = stream.source
        if isinstance(source, FilesDeclaration) and name_place(project, source) == place:
            readers.setdefault(stream.name, []).append(source)
    return readers


def _list_started(project: Project) -> Iterator[StreamDeclaration]:
    """What streams were last started with, and what they are being migrated to.

    A stream may run although it has no file any more.
    """
    for row in project.store.streams.all():
        has_file = row.name in project.config.streams.keys() - project.config.missing
        if row.is_desired or has_file:
            migration = project.store.migrations.open(row.name)
            targets = [] if migration is None else [migration.target]
            yield from (
                _parse(row.name, declaration) for declaration in (row.declaration, *targets)
            )


def _parse(stream: str, declaration: JsonObject) -> StreamDeclaration:
    try:
        return StreamDeclaration.model_validate(declaration)
    except ValidationError as error:
        raise PermanentError(
            f"cannot tell what {stream} reads: an older version has started it",
            hint=f"start or migrate {stream} with this version first",
        ) from error


def name_place(project: Project, source: FilesDeclaration) -> str:
    """The folder of a source, spelled in one way, without the `s3://` of a bucket."""
    path = project.config.resolve_path(source.path)
    return str(PurePosixPath(path.removeprefix("s3://")))


def _files_source(project: Project, stream: str) -> FilesDeclaration:
    declared = project.config.stream(stream).source
    if not isinstance(declared, FilesDeclaration):
        raise PermanentError(
            f"{stream} has no input files: its source is {declared.kind}",
            hint="name a stream whose source is `files`",
        )
    return declared
