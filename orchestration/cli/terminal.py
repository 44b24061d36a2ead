"""What every command shares: the project, the two consoles, JSON output, common options."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape

from holdfast.ft_policies.errors import HoldfastError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from holdfast.configs.project import ProjectConfig
    from holdfast.resources.project import Project

DONE, FAILED, NOTE = "[green]✔[/green]", "[red]✘[/red]", "[yellow]•[/yellow]"
DEFAULT_REASON = "requested on the command line"  # for the history, without `--why`
INTERRUPTED = 130  # the exit code after Ctrl-C

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Print the planned steps and change nothing.")
]
Stream: TypeAlias = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]
OnlyStream: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="STREAM", show_default=False, help="Only this stream.")
]


@dataclass(slots=True)
class Terminal:
    """Where a command reads and writes: results go to `out`, errors and progress to `err`."""

    project_folder: Path | None = None
    debug: bool = False
    clock: Clock = SYSTEM_CLOCK

    @property
    def out(self) -> Console:
        """The console for results."""
        return Console(highlight=False, soft_wrap=False)

    @property
    def err(self) -> Console:
        """The console for errors and progress."""
        return Console(highlight=False, stderr=True)

    def root(self) -> Path:
        """The project's folder: the one given by `--project`, or the nearest."""
        from holdfast.configs.project import ProjectConfig

        return self.project_folder.resolve() if self.project_folder else ProjectConfig.find_root()

    def load_config(self) -> "ProjectConfig":
        """Load the declarations; fails with all mistakes in them."""
        from holdfast.configs.project import ProjectConfig

        return ProjectConfig.load(self.root())

    @contextmanager
    def open_project(
        self, *, current: Sequence[str] = (), current_deployment: bool = False
    ) -> "Iterator[Project]":
        """Open the project with its control store; mistakes in its files are shown.

        `current` are the streams whose current declaration the command takes: a mistake in their files is an
        error, and with `current_deployment` also one in `holdfast.yaml` or in a price list. For other files with
        a mistake their last good version counts.
        """
        from holdfast.configs.loading import InvalidConfig
        from holdfast.resources.project import open_project

        with open_project(self.root(), tolerant=True) as opened:
            project = replace(opened, clock=self.clock)
            broken = project.config.broken.intersection(current)
            if broken or (current_deployment and project.config.has_broken_deployment):
                raise InvalidConfig(project.config.problems)
            for problem in project.config.problems:
                self.err.print(f"{FAILED} {escape(str(problem))}", soft_wrap=True)
            yield project

    @contextmanager
    def open_storage(self, stream: str) -> "Iterator[Project]":
        """Open the project of a declared stream with its object store reachable.

        An embedded object store that is down runs only as long as the command, unless a stream was
        started meanwhile.
        """
        with self.open_project(current=[stream]) as project:
            project.config.stream(stream)
            embedded = project.embedded_s3()
            if embedded is None or embedded.alive():
                yield project
                return
            embedded.ensure()
            try:
                yield project
            finally:
                rows = project.store.streams.all()
                if not any(row.is_desired for row in rows):
                    embedded.stop()

    def json(self, value: Any) -> None:
        typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))

    @contextmanager
    def spinner(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show progress on a terminal; the yielded function changes the text."""
        with show_spinner(self.err, text) as change:
            yield change

    def error(self, error: HoldfastError) -> None:
        self.err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        if error.hint:
            self.err.print(f"[dim] hint:[/dim] {escape(error.hint)}", soft_wrap=True)


@contextmanager
def show_spinner(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner whose text may change; nothing where the console is no terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield status.update


def terminal(ctx: typer.Context) -> Terminal:
    """The terminal of the running command."""
    return ctx.ensure_object(Terminal)


def select_streams(config: "ProjectConfig", names: list[str]) -> list[str]:
    """The named streams, each once; all declared streams without a name. Fails for an undeclared one."""
    for name in names:
        config.stream(name)
    return list(dict.fromkeys(names)) or sorted(config.streams)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
