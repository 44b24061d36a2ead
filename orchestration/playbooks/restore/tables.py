"""The tables that go back with a stream: its output, if that is a table, and its dead letters."""

from dataclasses import dataclass

from holdfast.configs.sinks import DeltaSink
from holdfast.orchestration.playbooks.base import StepResult
from holdfast.resources.object_store.resolve import connector
from holdfast.resources.project import Project
from holdfast.streaming.sinks.lineage import dead_letter_writer, writer
from holdfast.streaming.sinks.rollback import RollbackPoint, TableRollback


@dataclass(frozen=True, slots=True)
class OutputRolled(StepResult):
    """The version of the output table that took it back; `None` if the output is no table."""

    table_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What of a stream's output Holdfast can take back."""

    stream: str
    output: TableRollback | None
    dead_letters: TableRollback | None

    def is_rolled(self, history: int) -> bool:
        """Whether all are open for a history: each is shut for the one before with the same commit."""
        output, aside = self.output, self.dead_letters
        return (output is None or output.is_rolled(writer(self.stream, history))) and (
            aside is None or aside.is_rolled(dead_letter_writer(self.stream, history))
        )

    def roll(self, turn: RollbackPoint) -> OutputRolled:
        """Take all of them back."""
        version = None if self.output is None else self.output.roll(turn)
        if self.dead_letters is not None:
            self.dead_letters.roll_dead_letters(turn)
        return OutputRolled(version)


def tables_of(world: Project, stream: str) -> Tables:
    """The tables of a stream as it is declared."""
    project, declared = world.config, world.config.stream(stream)
    connect = connector(project.deployment.object_store, project.home)
    is_table = isinstance(declared.sink, DeltaSink)
    aside = project.dead_letters_path(declared)
    return Tables(
        stream=stream,
        output=TableRollback(project.table_path(declared), connect) if is_table else None,
        dead_letters=None if aside is None else TableRollback(aside, connect),
    )
