"""Which input files of a stream no recovery and no restore can need any more, and deleting them.

A file may be input of several streams (a fork reads what its original reads): it is needed as long as one of
them needs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.configs.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.retention import MarginVerdict, first_epoch_to_keep
from holdfast.observation.growth import epoch_facts, find_margin, open_files
from holdfast.resources.project import Project
from holdfast.streaming.sources.files import FilesSource, ListedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInputs:
    """The input files of a stream that are there: those that are needed, and the others.

    Epochs from `first_epoch` on may be computed again.
    """

    stream: str
    first_epoch: int
    needed: tuple[ListedFile, ...]
    unneeded: tuple[ListedFile, ...]
    margin: MarginVerdict


def read_inputs(project: Project, stream: str) -> StreamInputs:
    """Tell the needed input of a stream from the rest; `PermanentError` if its source has no files."""
    files = _open_source(project, stream).files()
    needed: set[ListedFile] = set()
    for reader in _streams_with_source_of(project, stream):
        needed |= _needed_by(project, reader, files)
    return StreamInputs(
        stream=stream,
        first_epoch=_first_epoch(project, stream),
        needed=tuple(file for file in files if file in needed),
        unneeded=tuple(file for file in files if file not in needed),
        margin=find_margin(project, stream),
    )


def delete_unneeded(project: Project, inputs: StreamInputs) -> None:
    """Delete the files that are not needed, and no other: one that has changed since it was listed stays."""
    source = _open_source(project, inputs.stream)
    for file in inputs.unneeded:
        source.delete(file)


def _needed_by(project: Project, stream: str, files: Sequence[ListedFile]) -> set[ListedFile]:
    """The files that a stream has not read yet, that it may read again, or that are not those it has read."""
    first = _first_epoch(project, stream)
    assigned = project.store.epoch_files.named(stream, [file.name for file in files])
    done = {
        ListedFile(file.name, file.size, file.changed_ns)
        for file in assigned
        if file.epoch < first and file.size is not None and file.changed_ns is not None
    }
    source = _open_source(project, stream)
    return {file for file in files if source.is_input(file.name) and file not in done}


def _first_epoch(project: Project, stream: str) -> int:
    listing = project.vault(stream).listing()
    snapshots = [record.epoch for record in (*listing.snapshots, *listing.superseded)]
    return first_epoch_to_keep(epoch_facts(project, stream, snapshots))


def _streams_with_source_of(project: Project, stream: str) -> list[str]:
    path = _path(project, stream)
    return [name for name in sorted(project.config.streams) if _path(project, name) == path]


def _path(project: Project, stream: str) -> str | None:
    source = project.config.stream(stream).source
    if not isinstance(source, FilesDeclaration):
        return None
    return project.config.resolve_path(source.path)


def _open_source(project: Project, stream: str) -> FilesSource:
    declared = project.config.stream(stream).source
    if not isinstance(declared, FilesDeclaration):
        raise PermanentError(
            f"{stream} has no input files: its source is {declared.kind}",
            hint="name a stream whose source is `files`",
        )
    return open_files(project, declared)
