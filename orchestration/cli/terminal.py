"""What every command needs to talk: the project, two consoles, and JSON for programs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape

from holdfast.ft_policies.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.configs.project import ProjectConfig
    from holdfast.resources.project import Project

DONE, FAILED, NOTE = "[green]✔[/green]", "[red]✘[/red]", "[yellow]•[/yellow]"
INTERRUPTED = 130  # the exit code after Ctrl-C

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print facts as JSON.")]
DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Show the plan with what each step does, and leave.")
]
Stream: TypeAlias = Annotated[str, typer.Argument(metavar="STREAM", help="A stream's name.")]
OnlyStream: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="STREAM", show_default=False, help="Only this one.")
]


@dataclass(slots=True)
class Terminal:
    """Where a command reads and writes; facts go to `out`, errors to `err`."""

    project_folder: Path | None = None
    debug: bool = False

    @property
    def out(self) -> Console:
        """The console for facts."""
        return Console(highlight=False, soft_wrap=False)

    @property
    def err(self) -> Console:
        """The console for errors."""
        return Console(highlight=False, stderr=True)

    def root(self) -> Path:
        """The project's folder: the one that was named, or the nearest."""
        from holdfast.configs.project import ProjectConfig

        return self.project_folder.resolve() if self.project_folder else ProjectConfig.find_root()

    def project(self) -> "ProjectConfig":
        """The project as declared."""
        from holdfast.configs.project import ProjectConfig

        return ProjectConfig.load(self.root())

    @contextmanager
    def world(self) -> "Iterator[Project]":
        """The project as something to act on."""
        from holdfast.resources.project import open_project

        with open_project(self.root()) as world:
            yield world

    def json(self, facts: Any) -> None:
        """Print facts for a program."""
        typer.echo(json.dumps(facts, default=_plain, indent=2, ensure_ascii=False))

    @contextmanager
    def working(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show that something goes on, where somebody looks; the value changes the words."""
        with spinning(self.err, text) as change:
            yield change

    def error(self, error: HoldfastError) -> None:
        """Say what went wrong and what can be done about it."""
        self.err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        if error.hint:
            self.err.print(f"[dim] hint:[/dim] {escape(error.hint)}", soft_wrap=True)


@contextmanager
def spinning(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with words that may change, on a terminal only."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield status.update


def terminal(ctx: typer.Context) -> Terminal:
    """The terminal of the command that runs."""
    return ctx.ensure_object(Terminal)


def chosen(project: "ProjectConfig", names: list[str]) -> list[str]:
    """The streams that were named, each of them declared; all if none was."""
    for name in names:
        project.stream(name)
    return list(dict.fromkeys(names)) or sorted(project.streams)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
