"""Whether the source still has what a recovery would read again."""

import pyarrow as pa
from pyarrow import fs

from holdfast.configs.sources import FilesSource as FilesDeclaration
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.doctor.facts import LostInput
from holdfast.ft_policies.errors import TransientError
from holdfast.resources.object_store.resolve import connector, filesystem
from holdfast.resources.project import Project
from holdfast.streaming.sources.files import FilesSource, files_read


def examine_source(
    world: Project, declared: StreamDeclaration, *, first: int, last: int
) -> tuple[LostInput, ...]:
    """The files of these epochs that are gone or changed; a source that computes has everything.

    A local folder that is not there is no loss yet: it may not be mounted.
    """
    source = declared.source
    if not isinstance(source, FilesDeclaration) or first > last:
        return ()
    connect = connector(world.config.deployment.object_store, world.config.home)
    files, root = filesystem(source.path, connect)
    local = isinstance(files, fs.LocalFileSystem)
    if local and files.get_file_info(root).type is fs.FileType.NotFound:
        raise TransientError(
            f"the folder {source.path} is not there, so nobody can say what is lost",
            hint="mount it; if it is gone for good, make an empty one",
        )
    reader = FilesSource(source, pa.schema([]), files, root, set)
    return tuple(
        LostInput(
            epoch=epoch.epoch, rows=file.get("rows", epoch.rows), file=file["name"], reason=reason
        )
        for epoch in world.store.epochs.between(declared.name, first, last)
        for file in files_read(epoch.input)
        if (reason := reader.fault(file)) is not None
    )
