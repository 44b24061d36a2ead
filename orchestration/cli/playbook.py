"""How a command runs any playbook: one line per step, `--dry-run`, `--json`, exit codes."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.playbooks.base import Step, step_fields
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.terminal import (
    DONE,
    FAILED,
    INTERRUPTED,
    Terminal,
    select_streams,
    terminal,
)
from holdfast.resources.control_store.sample_names import SampleName

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.base import StepDone, StepResult, StreamPlaybook
    from holdfast.resources.project import Project

MAX_PARALLEL = 4
DURATION_LABELS = {
    SampleName.DEPLOY_SECONDS: "deploy",
    SampleName.READ_SNAPSHOT_SECONDS: "read snapshot",
    SampleName.WIRE_RECEIVE_SECONDS: "wire",
    SampleName.WIRE_SEND_SECONDS: "send",
    SampleName.REPLAY_SECONDS: "replay",
    SampleName.FIRST_COMMIT_SECONDS: "first commit",
}

Build: TypeAlias = "Callable[[Project, str, str], StreamPlaybook[Any, Any]]"
"""Builds the playbook of a stream (second argument) for a run (third)."""
ResultT = TypeVar("ResultT", bound="StepResult")


@dataclass(slots=True)
class PlaybookOutcome:
    """The steps of one stream's playbook, and the error that ended it."""

    stream: str
    run: str
    steps: "list[StepDone[Any]]" = field(default_factory=list)
    error: HoldfastError | None = None

    def as_dict(self) -> dict[str, Any]:
        """The outcome as JSON fields."""
        failed = (
            None if self.error is None else {"message": str(self.error), "hint": self.error.hint}
        )
        steps = [step_facts(done) for done in self.steps]
        return {"stream": self.stream, "run": self.run, "steps": steps, "error": failed}

    def last(self, kind: type[ResultT]) -> ResultT | None:
        """The last step result of this type, if there is one."""
        results = (done.result for done in reversed(self.steps))
        return next((result for result in results if isinstance(result, kind)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a command adds after its playbook: JSON fields, a message, an exit code."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    code: int | None = None
    """`None`: 0, or 1 after an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookCommand:
    """A command that runs or plans a playbook."""

    term: Terminal
    project: "Project"
    build: Build
    nothing_to_do: str
    as_json: bool

    def run_all(self, streams: Sequence[str], *, dry_run: bool) -> None:
        """Run or plan the playbook for declared streams; without a name for all of them."""
        names = select_streams(self.project.config, list(streams))
        if dry_run:
            self._plan_all(names)
            return
        outcomes = self._perform(names)
        if self.as_json:
            self.term.json({"streams": [outcome.as_dict() for outcome in outcomes]})
        raise typer.Exit(1 if any(outcome.error for outcome in outcomes) else 0)

    def plan(self, stream: str, *, otherwise: str = "", **about: Any) -> None:
        """Plan the playbook and show the plan; see `show`."""
        steps = self.build(self.project, stream, new_run()).plan()
        self.show(steps, stream=stream, otherwise=otherwise, **about)

    def show(
        self, steps: "Sequence[Step[Any]]", *, stream: str, otherwise: str = "", **about: Any
    ) -> None:
        """Print a plan: `about` goes into the JSON, `otherwise` is the line for an empty plan."""
        plan = plan_facts(stream, steps)
        if self.as_json:
            self.term.json({"stream": stream, **about, "steps": plan["steps"]})
        elif steps or not otherwise:
            self.term.out.print(plan_view(plan, nothing_to_do=self.nothing_to_do))
        else:
            self.term.out.print(otherwise)

    def run(
        self,
        stream: str,
        *,
        conclude: Callable[[PlaybookOutcome], Conclusion] = lambda _: Conclusion(),
        interrupted: Callable[[], str] | None = None,
    ) -> NoReturn:
        """Run the playbook for one stream, and exit with its code.

        `interrupted` gives the message after Ctrl-C; without it the interruption passes through.
        """
        try:
            [outcome] = self._perform([stream])
        except KeyboardInterrupt as error:
            if interrupted is None:
                raise
            self.term.err.print(interrupted(), soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from error
        conclusion = conclude(outcome)
        if self.as_json:
            self.term.json({**outcome.as_dict(), **conclusion.facts})
        elif conclusion.message:
            self.term.out.print(conclusion.message)
        code = 0 if outcome.error is None else 1
        raise typer.Exit(code if conclusion.code is None else conclusion.code)

    def _perform(self, streams: Sequence[str]) -> list[PlaybookOutcome]:
        console = None if self.as_json else self.term.out
        return run_for_streams(
            self.project, streams, self.build, console, nothing_to_do=self.nothing_to_do
        )

    def _plan_all(self, streams: Sequence[str]) -> None:
        plans = [
            plan_facts(name, self.build(self.project, name, new_run()).plan()) for name in streams
        ]
        if self.as_json:
            self.term.json({"streams": plans})
            return
        for plan in plans:
            if len(plans) > 1 and plan["steps"]:
                self.term.out.print(f"[bold]{escape(plan['stream'])}[/bold]")
            self.term.out.print(plan_view(plan, nothing_to_do=self.nothing_to_do))


@contextmanager
def playbook_command(
    ctx: typer.Context,
    build: Build,
    *,
    nothing_to_do: str,
    as_json: bool,
    stream: str | None = None,
) -> Iterator[PlaybookCommand]:
    """Open the project for a command that runs or plans a playbook; `stream` has to be declared."""
    term = terminal(ctx)
    with term.open_project() as project:
        if stream is not None:
            project.config.stream(stream)
        yield PlaybookCommand(
            term=term, project=project, build=build, nothing_to_do=nothing_to_do, as_json=as_json
        )


def run_for_streams(
    project: "Project",
    streams: Sequence[str],
    build: Build,
    console: Console | None,
    *,
    nothing_to_do: str,
) -> list[PlaybookOutcome]:
    """Run the playbook of each stream, `MAX_PARALLEL` at a time; without a console nothing is printed."""
    outcomes = [PlaybookOutcome(name, new_run()) for name in streams]

    def run(outcome: PlaybookOutcome) -> None:
        try:
            for done in build(project, outcome.stream, outcome.run).steps():
                outcome.steps.append(done)
                if console is not None:
                    console.print(step_line(outcome.stream, step_facts(done)))
        except HoldfastError as error:
            outcome.error = error
        if console is not None and (outcome.error is not None or not outcome.steps):
            console.print(_ending(outcome, nothing_to_do))

    with _progress(project, outcomes, console):
        if len(outcomes) == 1:  # on this thread, which is the one that Ctrl-C interrupts
            run(outcomes[0])
        else:
            with ThreadPoolExecutor(MAX_PARALLEL) as pool:
                list(pool.map(run, outcomes))
    return outcomes


def new_run() -> str:
    """A new name for a run of the command line."""
    return f"cli-{secrets.token_hex(4)}"


def plan_facts(stream: str, steps: "Sequence[Step[Any]]") -> dict[str, Any]:
    planned = [
        {"step": step.name, "turn": fmt.turn(step_fields(step)), "does": step.describe()}
        for step in steps
    ]
    return {"stream": stream, "steps": planned}


def plan_view(plan: Mapping[str, Any], *, nothing_to_do: str) -> Table | str:
    """A plan as a table, or one line if nothing is to be done."""
    steps = plan["steps"]
    return plan_table(steps) if steps else f"{DONE} {escape(plan['stream'])}  {nothing_to_do}"


def plan_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    """The planned steps in order, with what each would do."""
    table = Table.grid(padding=(0, 2))
    for number, step in enumerate(steps, 1):
        name = f"{step['step']} {step['turn']}".rstrip()
        table.add_row(f"{number}.", name, escape(step["does"]))
    return table


def step_line(stream: str, step: Mapping[str, Any]) -> str:
    """`✔ word_count  AwaitCatchUp 14.2 s (deploy 8.1 s, replay 2.0 s)`."""
    result = step["result"]
    parts = [
        f"{label} {fmt.seconds(result[name])}"
        for name, label in DURATION_LABELS.items()
        if name in result
    ]
    parts += [str(result[name]) for name in ("replica", "ended", "reason") if result.get(name)]
    about = f" [dim]({escape(', '.join(parts))})[/dim]" if parts else ""
    name = f"{step['step']} {step.get('turn') or fmt.turn(result)}".rstrip()
    line = f"{escape(stream)}  {name} {fmt.seconds(step['seconds'])}{about}"
    if failure := step.get("failed"):
        return f"{FAILED} {line}: {escape(failure)}"
    return f"{DONE} {line}"


def step_facts(done: "StepDone[Any]") -> dict[str, Any]:
    """A finished step as JSON fields."""
    facts = {"step": done.name, "seconds": done.seconds, "result": done.result.as_dict()}
    if done.result.failure:
        facts["failed"] = done.result.failure
    turn = fmt.turn(step_fields(done.step))
    return {**facts, "turn": turn} if turn else facts


def _ending(outcome: PlaybookOutcome, nothing_to_do: str) -> str:
    if outcome.error is None:
        return f"{DONE} {escape(outcome.stream)}  {nothing_to_do}"
    hint = f"\n  [dim]hint:[/dim] {escape(outcome.error.hint)}" if outcome.error.hint else ""
    return f"{FAILED} {escape(outcome.stream)}  {escape(str(outcome.error))}{hint}"


@contextmanager
def _progress(
    project: "Project", outcomes: list[PlaybookOutcome], console: Console | None
) -> Iterator[None]:
    """Show the current step of each playbook, from the intents in the journal."""
    if console is None or not console.is_terminal:
        yield
        return
    spinner = Spinner("dots")

    def current() -> Table:
        table = Table.grid(padding=(0, 1))
        for outcome in outcomes:
            step = _current_step(project, outcome)
            if step:
                table.add_row(spinner, escape(outcome.stream), step)
        return table

    with Live(get_renderable=current, console=console, refresh_per_second=4, transient=True):
        yield


def _current_step(project: "Project", outcome: PlaybookOutcome) -> str:
    from holdfast.resources.control_store.records import Phase

    try:
        lines = project.store.journal.of(outcome.stream, run=outcome.run, limit=1)
        if not lines or lines[-1].phase is not Phase.INTENT:
            return ""
        name = f"{lines[-1].step} {fmt.turn(lines[-1].detail)}".rstrip()
        return f"{name} [dim]{fmt.seconds(project.store.now() - lines[-1].at)}[/dim]"
    except HoldfastError:
        return ""
