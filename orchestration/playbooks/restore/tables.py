"""The tables that are rolled back with a stream: its output, if that is a table, and its dead letters."""

from dataclasses import dataclass

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.orchestration.playbooks.base import StepResult
from holdfast.resources.object_store.resolve import connector
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.lineage import dead_letter_writer, writer
from holdfast.streaming.sinks.delta.rollback import RollbackPoint, TableRollback
from holdfast.streaming.sinks.output import StreamOutput


@dataclass(frozen=True, slots=True)
class OutputRolled(StepResult):
    """The version of the output table after the rollback; `None` if the output is no table."""

    table_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of a stream that Holdfast can roll back."""

    stream: str
    output: TableRollback | None
    dead_letters: TableRollback | None
    letters: StreamOutput | None = None
    """The dead letters as the control store knows them."""

    def is_rolled(self, history: int) -> bool:
        """Whether all are open for a history; the same commit closes each for the history before."""
        output, dead_letters = self.output, self.dead_letters
        return (output is None or output.is_rolled_back(writer(self.stream, history))) and (
            dead_letters is None
            or dead_letters.is_rolled_back(dead_letter_writer(self.stream, history))
        )

    def roll(self, point: RollbackPoint) -> OutputRolled:
        if self.letters is not None:
            self.letters.require_not_away()  # a missing table is created
        version = None if self.output is None else self.output.roll_back(point)
        if self.dead_letters is not None:
            self.dead_letters.roll_back_dead_letters(point)
        return OutputRolled(version)


def tables_of(project: Project, stream: str) -> Tables:
    """The tables of a stream as it is declared."""
    config, declared = project.config, project.config.stream(stream)
    connect = connector(config.deployment.object_store, config.home)
    is_table = isinstance(declared.sink, DeltaSink)
    keep_seconds = config.deployment.retention.table_versions
    path, dead_letters, letters = config.dead_letters_path(declared), None, None
    if path is not None:
        dead_letters = TableRollback(path, connect, keep_seconds)
        letters = StreamOutput.of_dead_letters(project.store, stream, path, connect)
    return Tables(
        stream=stream,
        output=TableRollback(config.table_path(declared), connect) if is_table else None,
        dead_letters=dead_letters,
        letters=letters,
    )
