"""Starting a replica: its row first, then its folder, then its process."""

import os
import secrets
import sys
from pathlib import Path

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.playbooks.recover.migration import GIVING_WAY_SHARE, Protocol
from holdfast.ft_policies.tiers import PRIMARY, Switches
from holdfast.resources.control_store.records import (
    EndedBy,
    JsonObject,
    Migration,
    ReplicaRow,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.local_folders import require_one_host
from holdfast.resources.priority import GIVING_WAY, LOWEST
from holdfast.resources.process import BOOT, HOST, ProcessHandle, is_over, launch
from holdfast.resources.project import Project
from holdfast.streaming.spec import ReplicaSpec


def remove_old_checkpoints(store: ControlStore, stream: str) -> ProcessHandle | None:
    """Start removing the folders of ended replicas on this host, but not their logs; `None` if there are none.

    The removal runs at the lowest priority, and the launch does not wait for it.
    """
    folders = [
        str(entry)
        for row in store.replicas.of(stream, live=False)
        if is_over(row)
        for entry in _entries(Path(row.folder))
        if entry.is_dir()
    ]
    if not folders:
        return None
    return launch(
        ["rm", "-rf", "--", *folders],
        folder=Path("/"),
        output=Path(os.devnull),
        environment={},
        nice=LOWEST,
    )


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def declare(project: ProjectConfig, store: ControlStore, name: str) -> StreamDeclaration:
    """Write the declaration of a stream into the control store, where all hosts read it."""
    stream = project.resolve_paths(project.stream(name))
    store.streams.declare(name, to_json(stream), stream.tier)
    return stream


def launch_primary(project: Project, name: str) -> ReplicaRow | None:
    """Start a primary, unless there is one: the row in the control store arbitrates, so two never start.

    It runs the declaration from the start of the stream, not a file that may be edited just now;
    the target of a migration whose protocol stops the primary first runs that.
    """
    require_whole(project.store, name)
    under_way = project.store.migrations.open(name)
    legacy = under_way is not None and under_way.protocol is Protocol.LEGACY
    declared = _find_declaration(project.store, name, under_way if legacy else None)
    return None if declared is None else _launch(project, Slot.PRIMARY, PRIMARY, *declared)


def launch_secondary(project: Project, name: str) -> ReplicaRow | None:
    """Start a secondary with nothing on but `deploy`, unless there is one.

    It runs the declaration of the primary, since both replicas must compute the same; or it is the
    target of a migration.
    """
    declared = _find_declaration(project.store, name, project.store.migrations.open(name))
    desired = Switches(deploy=True)
    return None if declared is None else _launch(project, Slot.SECONDARY, desired, *declared)


def _find_declaration(
    store: ControlStore, name: str, migration: Migration | None
) -> tuple[StreamDeclaration, int] | None:
    """The declaration of a new replica: a migration's target, or the one in the control store."""
    row = store.streams.get(name)
    if row is None:
        return None
    if migration is not None:
        return StreamDeclaration.model_validate(migration.target), migration.rollout
    return StreamDeclaration.model_validate(row.declaration), row.rollout


def _launch(
    project: Project, slot: Slot, desired: Switches, stream: StreamDeclaration, migration: int
) -> ReplicaRow | None:
    require_one_host(project.config, project.store, stream)
    row = _register(project.config, project.store, stream, slot, desired, migration)
    if row is not None:
        _start(project, stream, row)
    return row


def require_whole(store: ControlStore, name: str) -> None:
    """Refuse a stream with an unfinished restore: its state and its output do not agree yet."""
    restore = store.restores.newest(name)
    if restore is not None and restore.half_done:
        raise PermanentError(
            f"{name} cannot be started: its restore to epoch {restore.epoch} is half done",
            hint=f"run `holdfast restore {name} --epoch {restore.epoch}` to finish it",
        )


def _register(
    project: ProjectConfig,
    store: ControlStore,
    stream: StreamDeclaration,
    slot: Slot,
    desired: Switches,
    migration: int,
) -> ReplicaRow | None:
    """Reserve the slot for a new replica; `None` if a live one has it or the stream was stopped."""
    name = stream.name
    replica = f"{name}-{secrets.token_hex(4)}"
    row = store.replicas.register(
        id=replica,
        stream=name,
        slot=slot,
        desired=desired,
        host=HOST,
        folder=str(project.replicas_folder(stream) / replica),
        rollout=migration,
        boot=BOOT,
    )
    if row is None or _is_wanted(store, name):
        return row
    # A stop records its request first and then reads the replicas; a launch does it the other way
    # round, so one of the two sees the other.
    store.replicas.end(replica, ReplicaState.STOPPED, "the stream was stopped", by=EndedBy.LAUNCHER)
    return None


def _start(project: Project, stream: StreamDeclaration, row: ReplicaRow) -> None:
    store, folder = project.store, Path(row.folder)
    try:
        remove_old_checkpoints(store, row.stream)
        folder.mkdir(parents=True)
        # The row is there: a restore that begins after it waits for this replica to end.
        history = store.restores.current_history(row.stream)
        nice, seconds = _giving_way(store, stream)
        spec = build_spec(project.config, stream, row.slot, row.id, folder, history=history)
        spec.model_copy(update={"nice": nice, "nice_seconds": seconds}).save()
        process = _start_process(project, stream, folder)
    except OSError as error:
        reason = f"could not be started: {error}"
        store.replicas.end(row.id, ReplicaState.DEAD, reason, by=EndedBy.LAUNCHER)
        raise TransientError(
            f"no replica of {row.stream} can be started: {error}",
            hint=f"check the free space on the disk of {project.config.home}; the launch is tried again",
        ) from error
    store.replicas.record_process(row.id, pid=process.pid, pid_started_at=process.started_at)


def _start_process(project: Project, stream: StreamDeclaration, folder: Path) -> ProcessHandle:
    return project.launch(
        [sys.executable, "-m", "holdfast.streaming.replica", "--folder", str(folder)],
        folder=project.config.root,
        output=folder / "driver.out",
        environment=driver_environment(project.config, stream),
    )


def driver_environment(project: ProjectConfig, stream: StreamDeclaration) -> dict[str, str]:
    """The environment of a driver: the code of the stream comes first in its path, then the project."""
    own = [] if stream.code is None else [project.resolve_path(stream.code)]
    inherited = filter(None, [os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*own, str(project.root), *inherited])}


def to_json(stream: StreamDeclaration) -> JsonObject:
    """A declaration as the control store stores it."""
    return stream.model_dump(mode="json", by_alias=True)


def build_spec(
    project: ProjectConfig,
    stream: StreamDeclaration,
    slot: Slot,
    replica: str,
    folder: Path,
    *,
    history: int = 0,
) -> ReplicaSpec:
    """Build the spec that the processes of a replica read."""
    return ReplicaSpec(
        replica=replica,
        slot=slot,
        stream=stream,
        history=history,
        control_url=project.control_url,
        home=project.home,
        folder=folder,
        table=project.table_path(stream) if isinstance(stream.sink, DeltaSink) else "",
        dead_letters=project.dead_letters_path(stream) or "",
        table_versions_seconds=project.deployment.retention.table_versions,
        object_store=project.deployment.object_store,
    )


def _giving_way(store: ControlStore, stream: StreamDeclaration) -> tuple[int, float | None]:
    """The nice value of a secondary, and for how long it applies at most.

    A secondary on spare capacity gives way, and so does a target beside a primary that must not be slowed
    down, for a share of its time. A target that replays does not: its primary may be overloaded, and would
    leave no CPU for it. Nor does a target whose predecessor was lost: that may have been too slow.
    """
    spare, migration = stream.secondary.spare_capacity, store.migrations.open(stream.name)
    usual = 0 if spare is None else spare.nice
    if migration is None or _had_target(store, migration):
        return usual, None
    match migration.protocol:
        case Protocol.INTERRUPTION_FREE:
            left_seconds = max(0.0, migration.deadline_at - store.now())
            return max(usual, GIVING_WAY), GIVING_WAY_SHARE * left_seconds
        case Protocol.REPLAY:
            return 0, None
        case Protocol.LEGACY:
            return usual, None


def _had_target(store: ControlStore, migration: Migration) -> bool:
    rows = store.replicas.of(migration.stream, live=False)
    return any(row.rollout == migration.rollout and row.state.ended for row in rows)


def require_folder(project: ProjectConfig, stream: StreamDeclaration) -> None:
    """Refuse a folder in which no replica could be created; nothing is created yet."""
    folder = project.replicas_folder(stream)
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise PermanentError(
            f"{stream.name} can have no replicas in {folder}: {existing} is not a writable folder",
            hint="correct resources.folder, or the permissions of that folder",
        )


def _is_wanted(store: ControlStore, name: str) -> bool:
    row = store.streams.get(name)
    return row is not None and row.is_desired
