"""Starting a replica: its row first, then its folder, then its process."""

import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.configs.project import ProjectConfig
from holdfast.configs.sinks import DeltaSink
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.playbooks.recover.migration import GIVING_WAY_SHARE, Protocol
from holdfast.ft_policies.tiers import PRIMARY, Switches
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    JsonObject,
    ReplicaRow,
    ReplicaState,
    Rollout,
    Slot,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.priority import GIVING_WAY, LOWEST
from holdfast.resources.process import HOST, ProcessHandle, is_over, launch, log_tail
from holdfast.streaming.spec import ReplicaSpec


def sweep(store: ControlStore, stream: str) -> ProcessHandle | None:
    """Begin to drop what the replicas of a stream have left on this host; `None` if there is nothing."""
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
    """Write what is declared of a stream into the control store, for all hosts to read."""
    stream = project.resolve_paths(project.stream(name))
    store.streams.declare(name, written(stream), stream.tier)
    return stream


def launch_primary(project: ProjectConfig, store: ControlStore, name: str) -> ReplicaRow | None:
    """Start a primary, unless there is one: the row arbitrates, so no second is ever started.

    It runs what was declared when the stream was started, and not what people may be writing just now;
    the target of a rollout whose protocol stops the primary first runs that.
    """
    require_whole(store, name)
    under_way = store.rollouts.open(name)
    legacy = under_way is not None and under_way.protocol is Protocol.LEGACY
    declared = _declared(store, name, under_way if legacy else None)
    return None if declared is None else _launched(project, store, Slot.PRIMARY, PRIMARY, *declared)


def launch_secondary(project: ProjectConfig, store: ControlStore, name: str) -> ReplicaRow | None:
    """Start a secondary with nothing on but `deploy`, unless there is one.

    It runs what the primary does, since two replicas of one stream must compute the same; or it is the
    target of a rollout.
    """
    declared = _declared(store, name, store.rollouts.open(name))
    desired = Switches(deploy=True)
    return (
        None if declared is None else _launched(project, store, Slot.SECONDARY, desired, *declared)
    )


def _declared(
    store: ControlStore, name: str, rollout: Rollout | None
) -> tuple[StreamDeclaration, int] | None:
    """What a new replica runs: a rollout's target, or what the control store says is declared."""
    known = store.streams.get(name)
    if known is None:
        return None
    if rollout is not None:
        return StreamDeclaration.model_validate(rollout.target), rollout.rollout
    return StreamDeclaration.model_validate(known.declaration), known.rollout


def _launched(
    project: ProjectConfig,
    store: ControlStore,
    slot: Slot,
    desired: Switches,
    stream: StreamDeclaration,
    rollout: int,
) -> ReplicaRow | None:
    row = _registered(project, store, stream, slot, desired, rollout)
    if row is not None:
        _start(project, store, stream, row)
    return row


def require_whole(store: ControlStore, name: str) -> None:
    """Refuse a stream that is half restored: its state and its output do not agree yet."""
    restore = store.restores.newest(name)
    if restore is not None and restore.half_done:
        raise PermanentError(
            f"{name} is being restored to epoch {restore.epoch}, and that is half done",
            hint=f"`holdfast restore {name} --epoch {restore.epoch}` finishes it",
        )


def _registered(
    project: ProjectConfig,
    store: ControlStore,
    stream: StreamDeclaration,
    slot: Slot,
    desired: Switches,
    rollout: int,
) -> ReplicaRow | None:
    """The slot, reserved for a new replica; `None` if a live one has it or nobody wants one."""
    name = stream.name
    replica = f"{name}-{secrets.token_hex(4)}"
    row = store.replicas.register(
        id=replica,
        stream=name,
        slot=slot,
        desired=desired,
        host=HOST,
        folder=str(project.replicas_folder(stream) / replica),
        rollout=rollout,
    )
    if row is None or _is_wanted(store, name):
        return row
    # Whoever stops a stream says so first and then looks for replicas; here it is the other way
    # round, so one of the two sees the other.
    store.replicas.end(replica, ReplicaState.STOPPED, "the stream was stopped", by=EndedBy.LAUNCHER)
    return None


def _start(
    project: ProjectConfig, store: ControlStore, stream: StreamDeclaration, row: ReplicaRow
) -> None:
    folder = Path(row.folder)
    try:
        sweep(store, row.stream)
        folder.mkdir(parents=True)
        # The row is there: a restore that begins after it waits for this replica to end.
        history = store.restores.current_history(row.stream)
        nice, seconds = _giving_way(store, stream)
        spec = spec_of(project, stream, row.slot, row.id, folder, history=history)
        spec.model_copy(update={"nice": nice, "nice_seconds": seconds}).save()
        started = _started(project, stream, folder)
    except OSError as error:
        reason = f"could not be started: {error}"
        store.replicas.end(row.id, ReplicaState.DEAD, reason, by=EndedBy.LAUNCHER)
        raise TransientError(
            f"no replica of {row.stream} can be started: {error}",
            hint=f"is there room on the disk of {project.home}? It is tried again",
        ) from error
    store.replicas.launched(row.id, pid=started.pid, pid_started_at=started.started_at)


def _started(project: ProjectConfig, stream: StreamDeclaration, folder: Path) -> ProcessHandle:
    return launch(
        [sys.executable, "-m", "streaming.replica", "--folder", str(folder)],
        folder=project.root,
        output=folder / "driver.out",
        environment=driver_environment(project, stream),
    )


def driver_environment(project: ProjectConfig, stream: StreamDeclaration) -> dict[str, str]:
    """What a driver of the stream finds: its own code first, then the project's."""
    own = [] if stream.code is None else [project.resolve_path(stream.code)]
    inherited = filter(None, [os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*own, str(project.root), *inherited])}


def written(stream: StreamDeclaration) -> JsonObject:
    """A declaration as the control store keeps it."""
    return stream.model_dump(mode="json", by_alias=True)


def spec_of(
    project: ProjectConfig,
    stream: StreamDeclaration,
    slot: Slot,
    replica: str,
    folder: Path,
    *,
    history: int = 0,
) -> ReplicaSpec:
    """What the processes of a replica have to know."""
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
        object_store=project.deployment.object_store,
    )


def _giving_way(store: ControlStore, stream: StreamDeclaration) -> tuple[int, float | None]:
    """At which nice value a secondary runs, and for how long at the most.

    One on spare capacity gives way, and so does a target beside a primary that is not to be slowed down, for a
    share of its time. One that replays does not: its primary may be overloaded, and nothing would be left for it.
    Nor does one whose predecessor was lost: it may have been too slow.
    """
    spare, rollout = stream.secondary.spare_capacity, store.rollouts.open(stream.name)
    usual = 0 if spare is None else spare.nice
    if rollout is None or _had_target(store, rollout):
        return usual, None
    match rollout.protocol:
        case Protocol.INTERRUPTION_FREE:
            left_seconds = max(0.0, rollout.deadline_at - store.now())
            return max(usual, GIVING_WAY), GIVING_WAY_SHARE * left_seconds
        case Protocol.REPLAY:
            return 0, None
        case Protocol.LEGACY:
            return usual, None


def _had_target(store: ControlStore, rollout: Rollout) -> bool:
    rows = store.replicas.of(rollout.stream, live=False)
    return any(row.rollout == rollout.rollout and row.state.ended for row in rows)


def demand_folder(project: ProjectConfig, stream: StreamDeclaration) -> None:
    """Refuse a folder in which no replica could be made; nothing is made yet."""
    folder = project.replicas_folder(stream)
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise PermanentError(
            f"{stream.name} can have no replicas in {folder}: {there} is no folder to write to",
            hint="mend resources.folder, or who may write there",
        )


def _is_wanted(store: ControlStore, name: str) -> bool:
    row = store.streams.get(name)
    return row is not None and row.desired is DesiredState.RUNNING


PATIENCE_SECONDS = 300.0
START_SECONDS = 120.0  # Spark's own, before and after


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """What came out."""

    rows: int
    digest: str


def recompute(
    project: ProjectConfig,
    spec: ReplicaSpec,
    checkpoint: Path,
    epoch: int,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Recomputed:
    """What the stream's own query makes of an epoch; it decides none, and commits none."""
    spec.save()
    output = spec.folder / "driver.out"
    command = [
        sys.executable,
        "-m",
        "holdfast.streaming.query.recompute",
        "--folder",
        str(spec.folder),
    ]
    command += ["--checkpoint", str(checkpoint), "--epoch", str(epoch)]
    command += ["--patience", str(patience_seconds)]
    with output.open("wb") as sink:
        try:
            subprocess.run(  # noqa: S603 - the command is our own
                command,
                cwd=project.root,
                env=driver_environment(project, spec.stream),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that it can give way, see `holdfast.resources.priority`
                timeout=patience_seconds + START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TransientError(
                f"epoch {epoch} was not computed in time",
                hint="is the machine busy? Try again later",
            ) from error
    return _read(spec.folder)


def _read(folder: Path) -> Recomputed:
    """What the driver has written down, or its last words if it came to nothing."""
    result = folder / "recomputed.json"
    if not result.exists():
        raise PermanentError(
            f"the driver ended without a result: {log_tail(folder / 'driver.out')}",
            hint="is there memory for one more driver, as large as the stream's?",
        )
    told = json.loads(result.read_text())
    if "digest" in told:
        return Recomputed(**told)
    kind = PermanentError if told["lasts"] else TransientError
    raise kind(told["error"], hint=told["hint"])
