"""Whether the source still has the input that a recovery would read again."""

import pyarrow as pa
from pyarrow import fs

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.doctor.facts import LostInput
from holdfast.ft_policies.errors import TransientError
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.project import Project
from holdfast.streaming.sources.files import FilesSource, files_read, none_assigned


def examine_source(
    project: Project, declared: StreamDeclaration, *, first: int, last: int
) -> tuple[LostInput, ...]:
    """The files of these epochs that are missing or changed; a source that computes its rows loses none.

    A local folder that does not exist is a transient error, not a loss: it may not be mounted.
    """
    source = declared.source
    if not isinstance(source, FilesDeclaration) or first > last:
        return ()
    connect = connector(project.config.deployment.object_store, project.config.home)
    files, root = open_filesystem(source.path, connect)
    local = isinstance(files, fs.LocalFileSystem)
    if local and files.get_file_info(root).type is fs.FileType.NotFound:
        raise TransientError(
            f"the source cannot be checked: the folder {source.path} does not exist",
            hint="mount it; if it is lost for good, create an empty folder in its place",
        )
    reader = FilesSource(source, pa.schema([]), files, root, none_assigned)
    return tuple(
        LostInput(
            epoch=epoch.epoch, rows=file.get("rows", epoch.rows), file=file["name"], reason=reason
        )
        for epoch in project.store.epochs.between(declared.name, first, last)
        for file in files_read(epoch.input)
        if (reason := reader.fault(file)) is not None
    )
