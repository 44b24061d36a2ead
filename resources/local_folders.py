"""The local folders of a project whose control store several hosts can reach.

Each host would write a table of its own there, and read an input of its own. So the home folder has an id, which the
control store records with the first replica: a host without that folder launches nothing.
"""

from pathlib import Path
from uuid import uuid4

from holdfast.configs.declarations.deployment import EmbeddedObjectStore
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.private import write_private_once
from holdfast.resources.process import is_visible

ID_FILE = "id"


def require_home(project: ProjectConfig, store: ControlStore, stream: StreamDeclaration) -> None:
    """Raise if the stream has local folders, and they belong to another home folder."""
    local = _name_local_folder(project, stream)
    if store.is_local or local is None:
        return
    own = read_id(project.home)
    recorded = store.identity.bind_home(own)
    if recorded != own:
        raise PermanentError(
            f"{stream.name} belongs to another host, or to another home folder: {local} is local, and the "
            f"control store knows the home folder {recorded}, not {project.home} ({own})",
            hint="run it there, or declare places in S3; if its folders have moved here, write "
            f"{recorded} into {project.home / ID_FILE}",
        )


def require_one_host(
    project: ProjectConfig, store: ControlStore, stream: StreamDeclaration
) -> None:
    """Raise if the stream has local folders, and another host has them or runs a replica now."""
    require_home(project, store, stream)
    local, elsewhere = _name_local_folder(project, stream), None
    if local is not None:
        elsewhere = _find_replica_elsewhere(store, stream)
    if elsewhere is not None:
        raise TransientError(
            f"{stream.name} has a replica on the host {elsewhere.host}, and {local} is local: another host "
            "would have one of its own",
            hint=f"run the stream on {elsewhere.host} alone, or declare places in S3",
        )


def _name_local_folder(project: ProjectConfig, stream: StreamDeclaration) -> str | None:
    dead_letters = project.dead_letters_path(stream)
    if isinstance(stream.sink, DeltaSink) and _is_local(path := project.table_path(stream)):
        return f"its table {path}"
    if isinstance(stream.source, FilesSource) and _is_local(stream.source.path):
        return f"its source {stream.source.path}"
    if dead_letters is not None and _is_local(dead_letters):
        return f"the table of its dead letters {dead_letters}"
    if isinstance(project.deployment.object_store, EmbeddedObjectStore):
        return "the embedded object store with its snapshots"
    return None


def _is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def _find_replica_elsewhere(store: ControlStore, stream: StreamDeclaration) -> ReplicaRow | None:
    """A live replica on another host that has sent a heartbeat recently."""
    oldest = store.now() - stream.supervision.timings().secondary_lease_seconds
    return next(
        (
            row
            for row in store.replicas.of(stream.name)
            if not is_visible(row.host, row.boot)
            and (row.heartbeat_at or row.registered_at) >= oldest
        ),
        None,
    )


def read_id(home: Path) -> str:
    """The id of the home folder, which the first launch makes; of launches at once all read the same one."""
    file = home / ID_FILE
    if not file.exists():
        write_private_once(file, uuid4().hex)
    return file.read_text().strip()
