"""Applying the current declaration to a stream that has a past with an older one."""

from holdfast.configs.ddl import read_columns
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.compatibility import objections, start_objections
from holdfast.orchestration.playbooks.launch import declare, to_json
from holdfast.resources.control_store.records import JsonObject, StreamRow
from holdfast.resources.project import Project
from holdfast.streaming.spark.checkpoint import CHECKPOINT_CONF


def apply_declaration(project: Project, stream: str) -> None:
    """Make the current declaration that of the stream, unless a replica of it is alive.

    While the stream runs, both replicas keep the declaration that it was started with.
    """
    if project.store.replicas.of(stream):
        return
    require_startable(project, stream)
    declare(project.config, project.store, stream)
    under_way = project.store.migrations.open(stream)
    if under_way is not None:
        outcome = "superseded: the stream was started with its current declaration"
        project.store.migrations.abandon(stream, under_way.rollout, outcome)


def require_startable(project: Project, stream: str) -> None:
    """Refuse to start a stream that has a past with another source or sink than that of its past."""
    store, row = project.store, project.store.streams.get(stream)
    if row is None or (store.epochs.last(stream) is None and store.ledger.last(stream) is None):
        return
    before = StreamDeclaration.model_validate(row.declaration)
    target = project.config.resolve_paths(project.config.stream(stream))
    refused = start_objections(
        _to_json_with_path(project, before),
        _to_json_with_path(project, target),
        source_conf=_checkpoint_conf(before),
        target_conf=_checkpoint_conf(target),
        source_columns=_columns(before) if store.ledger.last(stream) else {},
        target_columns=_columns(target),
    )
    if refused:
        raise PermanentError(
            f"{stream} cannot be started: {'; '.join(map(str, refused))}",
            hint="undo that change in the file of the stream, or declare a stream of another name with it; "
            "`holdfast migrate` brings other changes to a stream with a past",
        )


def _columns(stream: StreamDeclaration) -> dict[str, str]:
    source = stream.source
    return read_columns(source.columns) if isinstance(source, FilesSource) else {}


def _to_json_with_path(project: Project, stream: StreamDeclaration) -> JsonObject:
    """The declaration with the full path of its table."""
    declaration = to_json(stream)
    if isinstance(stream.sink, DeltaSink):
        declaration["sink"]["path"] = project.config.table_path(stream)
    return declaration


def require_same_past(project: Project, stream: str, *, done: str) -> None:
    """Refuse a declaration that looks for the past of a stream in another place than where it is."""
    target, row = project.config.stream(stream), project.store.streams.get(stream)
    if row is not None:
        hint = "undo that change in the file of the stream, and try again; nothing was changed"
        require_survivable(row, project.config.resolve_paths(target), done=done, hint=hint)


def require_survivable(row: StreamRow, target: StreamDeclaration, *, done: str, hint: str) -> None:
    """Refuse changes that state and output of a stream do not survive; `done` is the request as a participle."""
    before = StreamDeclaration.model_validate(row.declaration)
    if before == target:
        return
    refused = objections(
        to_json(before),
        to_json(target),
        source_conf=_checkpoint_conf(before),
        target_conf=_checkpoint_conf(target),
    )
    if refused:
        reasons = "; ".join(map(str, refused))
        raise PermanentError(f"{target.name} cannot be {done}: {reasons}", hint=hint)


def _checkpoint_conf(stream: StreamDeclaration) -> dict[str, str]:
    """The Spark settings of a declaration that a checkpoint depends on."""
    return {
        key: stream.resources.spark_conf.get(key, usual) for key, usual in CHECKPOINT_CONF.items()
    }
