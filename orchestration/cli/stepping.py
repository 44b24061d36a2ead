"""Carrying playbooks out before somebody's eyes: one line per step as it is done."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from ft_policies.errors import HoldfastError
from orchestration.cli import words
from orchestration.cli.terminal import DONE, FAILED

if TYPE_CHECKING:
    from orchestration.plans import AnyStep
    from orchestration.playbooks.performing import Performed
    from resources.project import Project

AT_ONCE = 4
STEP_WORDS = {
    "t_deploy_seconds": "deploy",
    "t_read_snapshot_seconds": "read snapshot",
    "t_wire_receive_seconds": "wire",
    "t_wire_send_seconds": "send",
    "t_replay_seconds": "replay",
}

Playbook: TypeAlias = "Callable[[Project, str, str], Iterator[Performed[Any]]]"


@dataclass(slots=True)
class Told:
    """What came of one stream's playbook."""

    stream: str
    run: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    error: HoldfastError | None = None

    def facts(self) -> dict[str, Any]:
        """The same, for a program."""
        failed = (
            None if self.error is None else {"message": str(self.error), "hint": self.error.hint}
        )
        return {"stream": self.stream, "run": self.run, "steps": self.steps, "error": failed}


def carry_out(
    world: "Project",
    streams: Sequence[str],
    playbook: Playbook,
    console: Console | None,
    *,
    nothing_to_do: str,
) -> list[Told]:
    """Run the playbook for each stream, some at once; without a console nothing is shown."""
    told = [Told(name, new_run()) for name in streams]

    def run(one: Told) -> None:
        try:
            for performed in playbook(world, one.stream, one.run):
                one.steps.append(step_facts(performed))
                if console is not None:
                    console.print(step_line(one.stream, one.steps[-1]))
        except HoldfastError as error:
            one.error = error
        if console is not None and (one.error is not None or not one.steps):
            console.print(_ending(one, nothing_to_do))

    with _watching(world, told, console):
        if len(told) == 1:  # on this thread, which is the one that Ctrl-C interrupts
            run(told[0])
        else:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(run, told))
    return told


def new_run() -> str:
    """A name for what one command does."""
    return f"cli-{secrets.token_hex(4)}"


def plan_facts(stream: str, steps: "Sequence[AnyStep]") -> dict[str, Any]:
    """What a playbook would do, for a program."""
    from orchestration.plans import facts

    return {"stream": stream, "steps": [facts(step) for step in steps]}


def plan_shown(plan: Mapping[str, Any], *, nothing_to_do: str) -> Table | str:
    """The same for people."""
    steps = plan["steps"]
    return plan_table(steps) if steps else f"{DONE} {escape(plan['stream'])}  {nothing_to_do}"


def plan_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    """A plan: each step with what it would do, in order."""
    table = Table.grid(padding=(0, 2))
    for number, step in enumerate(steps, 1):
        name = f"{step['step']} {step.get('turn', '')}".rstrip()
        table.add_row(f"{number}.", name, escape(step["does"]))
    return table


def step_line(stream: str, step: Mapping[str, Any]) -> str:
    """`✔ word_count  AwaitLevel 14.2 s (deploy 8.1 s, replay 2.0 s)`."""
    found = step["found"]
    parts = [
        f"{word} {words.seconds(found[name])}" for name, word in STEP_WORDS.items() if name in found
    ]
    parts += [str(found[name]) for name in ("replica", "ended") if found.get(name)]
    about = f" [dim]({escape(', '.join(parts))})[/dim]" if parts else ""
    name = f"{step['step']} {step.get('turn') or words.turn(found)}".rstrip()
    return f"{DONE} {escape(stream)}  {name} {words.seconds(step['seconds'])}{about}"


def step_facts(performed: "Performed[Any]") -> dict[str, Any]:
    """A step for a program."""
    step = performed.step
    told = {"step": performed.name, "seconds": performed.seconds, "found": dict(performed.found)}
    turn = words.turn(asdict(step)) if is_dataclass(step) and not isinstance(step, type) else ""
    return {**told, "turn": turn} if turn else told


def _ending(one: Told, nothing_to_do: str) -> str:
    if one.error is None:
        return f"{DONE} {escape(one.stream)}  {nothing_to_do}"
    hint = f"\n  [dim]hint:[/dim] {escape(one.error.hint)}" if one.error.hint else ""
    return f"{FAILED} {escape(one.stream)}  {escape(str(one.error))}{hint}"


@contextmanager
def _watching(world: "Project", told: list[Told], console: Console | None) -> Iterator[None]:
    """Show the step that each playbook is at, from the intents in the journal."""
    if console is None or not console.is_terminal:
        yield
        return
    spinner = Spinner("dots")

    def current() -> Table:
        table = Table.grid(padding=(0, 1))
        for one in told:
            doing = _intent(world, one)
            if doing:
                table.add_row(spinner, escape(one.stream), doing)
        return table

    with Live(get_renderable=current, console=console, refresh_per_second=4, transient=True):
        yield


def _intent(world: "Project", one: Told) -> str:
    from resources.control.records import Phase

    try:
        lines = world.store.journal.of(one.stream, run=one.run, limit=1)
        if not lines or lines[-1].phase is not Phase.INTENT:
            return ""
        name = f"{lines[-1].step} {words.turn(lines[-1].detail)}".rstrip()
        return f"{name} [dim]{words.seconds(world.store.now() - lines[-1].at)}[/dim]"
    except HoldfastError:
        return ""
