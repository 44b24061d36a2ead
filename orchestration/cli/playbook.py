"""One way for any command to run a playbook: progress a step a line, `--dry-run`, `--json`, exit codes."""

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
from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.terminal import DONE, FAILED, INTERRUPTED, Terminal, chosen
from holdfast.resources.control_store.sample_names import SampleName

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.base import StepDone, StepResult, StreamPlaybook
    from holdfast.resources.project import Project

AT_ONCE = 4
STEP_WORDS = {
    SampleName.DEPLOY_SECONDS: "deploy",
    SampleName.READ_SNAPSHOT_SECONDS: "read snapshot",
    SampleName.WIRE_RECEIVE_SECONDS: "wire",
    SampleName.WIRE_SEND_SECONDS: "send",
    SampleName.REPLAY_SECONDS: "replay",
}

Build: TypeAlias = "Callable[[Project, str, str], StreamPlaybook[Any, Any]]"
"""Makes the playbook of a stream, for a run of this name."""
ResultT = TypeVar("ResultT", bound="StepResult")


@dataclass(slots=True)
class PlaybookOutcome:
    """What came of one stream's playbook."""

    stream: str
    run: str
    steps: "list[StepDone[Any]]" = field(default_factory=list)
    error: HoldfastError | None = None

    def as_dict(self) -> dict[str, Any]:
        """The outcome for JSON."""
        failed = (
            None if self.error is None else {"message": str(self.error), "hint": self.error.hint}
        )
        steps = [step_facts(done) for done in self.steps]
        return {"stream": self.stream, "run": self.run, "steps": steps, "error": failed}

    def last(self, kind: type[ResultT]) -> ResultT | None:
        """The last result of this kind, if a step had one."""
        results = (done.result for done in reversed(self.steps))
        return next((result for result in results if isinstance(result, kind)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a command adds once its playbook has ended: to JSON, on the screen, and as its exit code."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    code: int | None = None
    """Without one: 0, or 1 after an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookCommand:
    """A command that runs or plans a playbook."""

    tell: Terminal
    world: "Project"
    build: Build
    nothing_to_do: str
    as_json: bool

    def run_all(self, streams: Sequence[str], *, dry_run: bool) -> None:
        """Run it for declared streams, some at once, or plan it for each."""
        names = chosen(self.world.config, list(streams))
        if dry_run:
            self._plan_all(names)
            return
        outcomes = self._perform(names)
        if self.as_json:
            self.tell.json({"streams": [outcome.as_dict() for outcome in outcomes]})
        raise typer.Exit(1 if any(outcome.error for outcome in outcomes) else 0)

    def plan(self, stream: str, *, otherwise: str = "", **about: Any) -> None:
        """Show what it would do; see `show`."""
        steps = self.build(self.world, stream, new_run()).plan()
        self.show(steps, stream=stream, otherwise=otherwise, **about)

    def show(
        self, steps: "Sequence[Step[Any]]", *, stream: str, otherwise: str = "", **about: Any
    ) -> None:
        """Show a plan: `about` goes into the JSON, and `otherwise` is the line for an empty plan."""
        plan = plan_facts(stream, steps)
        if self.as_json:
            self.tell.json({"stream": stream, **about, "steps": plan["steps"]})
        elif steps or not otherwise:
            self.tell.out.print(plan_shown(plan, nothing_to_do=self.nothing_to_do))
        else:
            self.tell.out.print(otherwise)

    def run(
        self,
        stream: str,
        *,
        conclude: Callable[[PlaybookOutcome], Conclusion] = lambda _: Conclusion(),
        interrupted: Callable[[], str] | None = None,
    ) -> NoReturn:
        """Run it for one stream, and leave with its exit code."""
        try:
            [outcome] = self._perform([stream])
        except KeyboardInterrupt as error:
            if interrupted is None:
                raise
            self.tell.err.print(interrupted(), soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from error
        conclusion = conclude(outcome)
        if self.as_json:
            self.tell.json({**outcome.as_dict(), **conclusion.facts})
        elif conclusion.message:
            self.tell.out.print(conclusion.message)
        code = 0 if outcome.error is None else 1
        raise typer.Exit(code if conclusion.code is None else conclusion.code)

    def _perform(self, streams: Sequence[str]) -> list[PlaybookOutcome]:
        console = None if self.as_json else self.tell.out
        return run_for_streams(
            self.world, streams, self.build, console, nothing_to_do=self.nothing_to_do
        )

    def _plan_all(self, streams: Sequence[str]) -> None:
        plans = [
            plan_facts(name, self.build(self.world, name, new_run()).plan()) for name in streams
        ]
        if self.as_json:
            self.tell.json({"streams": plans})
            return
        for plan in plans:
            if len(plans) > 1 and plan["steps"]:
                self.tell.out.print(f"[bold]{escape(plan['stream'])}[/bold]")
            self.tell.out.print(plan_shown(plan, nothing_to_do=self.nothing_to_do))


def run_for_streams(
    world: "Project",
    streams: Sequence[str],
    build: Build,
    console: Console | None,
    *,
    nothing_to_do: str,
) -> list[PlaybookOutcome]:
    """Run the playbook of each stream, some at once; without a console nothing is shown."""
    outcomes = [PlaybookOutcome(name, new_run()) for name in streams]

    def run(outcome: PlaybookOutcome) -> None:
        try:
            for done in build(world, outcome.stream, outcome.run).steps():
                outcome.steps.append(done)
                if console is not None:
                    console.print(step_line(outcome.stream, step_facts(done)))
        except HoldfastError as error:
            outcome.error = error
        if console is not None and (outcome.error is not None or not outcome.steps):
            console.print(_ending(outcome, nothing_to_do))

    with _progress(world, outcomes, console):
        if len(outcomes) == 1:  # on this thread, which is the one that Ctrl-C interrupts
            run(outcomes[0])
        else:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(run, outcomes))
    return outcomes


def new_run() -> str:
    """A name for what one command does."""
    return f"cli-{secrets.token_hex(4)}"


def plan_facts(stream: str, steps: "Sequence[Step[Any]]") -> dict[str, Any]:
    """What a playbook would do, for JSON."""
    planned = [
        {"step": step.name, "turn": words.turn(step_fields(step)), "does": step.describe()}
        for step in steps
    ]
    return {"stream": stream, "steps": planned}


def plan_shown(plan: Mapping[str, Any], *, nothing_to_do: str) -> Table | str:
    """The same for the screen."""
    steps = plan["steps"]
    return plan_table(steps) if steps else f"{DONE} {escape(plan['stream'])}  {nothing_to_do}"


def plan_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    """A plan: each step with what it would do, in order."""
    table = Table.grid(padding=(0, 2))
    for number, step in enumerate(steps, 1):
        name = f"{step['step']} {step['turn']}".rstrip()
        table.add_row(f"{number}.", name, escape(step["does"]))
    return table


def step_line(stream: str, step: Mapping[str, Any]) -> str:
    """`✔ word_count  AwaitCatchUp 14.2 s (deploy 8.1 s, replay 2.0 s)`."""
    found = step["found"]
    parts = [
        f"{word} {words.seconds(found[name])}" for name, word in STEP_WORDS.items() if name in found
    ]
    parts += [str(found[name]) for name in ("replica", "ended") if found.get(name)]
    about = f" [dim]({escape(', '.join(parts))})[/dim]" if parts else ""
    name = f"{step['step']} {step.get('turn') or words.turn(found)}".rstrip()
    return f"{DONE} {escape(stream)}  {name} {words.seconds(step['seconds'])}{about}"


def step_facts(done: "StepDone[Any]") -> dict[str, Any]:
    """A step that was carried out, for JSON."""
    facts = {"step": done.name, "seconds": done.seconds, "found": done.result.as_dict()}
    turn = words.turn(step_fields(done.step))
    return {**facts, "turn": turn} if turn else facts


def _ending(outcome: PlaybookOutcome, nothing_to_do: str) -> str:
    if outcome.error is None:
        return f"{DONE} {escape(outcome.stream)}  {nothing_to_do}"
    hint = f"\n  [dim]hint:[/dim] {escape(outcome.error.hint)}" if outcome.error.hint else ""
    return f"{FAILED} {escape(outcome.stream)}  {escape(str(outcome.error))}{hint}"


@contextmanager
def _progress(
    world: "Project", outcomes: list[PlaybookOutcome], console: Console | None
) -> Iterator[None]:
    """Show the step that each playbook is at, from the intents in the journal."""
    if console is None or not console.is_terminal:
        yield
        return
    spinner = Spinner("dots")

    def current() -> Table:
        table = Table.grid(padding=(0, 1))
        for outcome in outcomes:
            step = _current_step(world, outcome)
            if step:
                table.add_row(spinner, escape(outcome.stream), step)
        return table

    with Live(get_renderable=current, console=console, refresh_per_second=4, transient=True):
        yield


def _current_step(world: "Project", outcome: PlaybookOutcome) -> str:
    from holdfast.resources.control_store.records import Phase

    try:
        lines = world.store.journal.of(outcome.stream, run=outcome.run, limit=1)
        if not lines or lines[-1].phase is not Phase.INTENT:
            return ""
        name = f"{lines[-1].step} {words.turn(lines[-1].detail)}".rstrip()
        return f"{name} [dim]{words.seconds(world.store.now() - lines[-1].at)}[/dim]"
    except HoldfastError:
        return ""
