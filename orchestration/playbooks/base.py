"""What a playbook is, and the loop that runs one: observe, decide, write the intent, act, write the result."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from holdfast.ft_policies.errors import HoldfastError, PermanentError
from holdfast.ft_policies.playbooks.base import Step, plan_steps, step_fields
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import JournalLine, Phase
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import HOST, ProcessHandle
from holdfast.resources.project import Project

FactsT = TypeVar("FactsT")
StepT = TypeVar("StepT", bound=Step[Any])
StepT_co = TypeVar("StepT_co", bound=Step[Any], covariant=True)

MAX_STEPS = 50
SUPERSEDED = "another step is due by now"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step has done or found; a step with something to tell returns a subclass."""

    def as_dict(self) -> dict[str, Any]:
        """The result for the journal and for JSON, without what is not known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class StepSkipped(StepResult):
    """The step was not taken: when its turn came it was no longer the one to take."""

    skipped: str = SUPERSEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone(Generic[StepT_co]):
    """A step that has been carried out, and how long it took."""

    step: StepT_co
    seconds: float
    result: StepResult

    @property
    def name(self) -> str:
        return self.step.name


@dataclass(frozen=True, slots=True)
class InnerSteps(StepResult):
    """What another playbook did inside a step."""

    done: Sequence[StepDone[Any]]

    def as_dict(self) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for done in self.done:
            results |= done.result.as_dict()
        steps = ", ".join(f"{done.name} {done.seconds:.2f} s" for done in self.done)
        return {**results, "steps": steps}


class Playbook(Protocol[FactsT, StepT]):
    """Brings a stream somewhere, one step at a time, each decided from facts alone.

    A run may die at any point; the next one observes anew and goes on from there. So each action must
    be safe to repeat.
    """

    name: ClassVar[str]

    def observe(self) -> FactsT:
        """The facts as they are now."""
        ...

    def decide(self, facts: FactsT) -> StepT | None:
        """The one step that is due; `None` when nothing is left to do."""
        ...

    def act(self, step: StepT) -> StepResult:
        """Carry a step out."""
        ...

    def begin(self) -> None:
        """Check and record what is requested, before the first look; raises if it is refused."""
        return

    def preview(self) -> FactsT:
        """The facts as they would be after `begin`, which is not done; raises if it would be refused."""
        return self.observe()

    def conclude(self) -> None:
        """Called when nothing is left to do; raises if that is not what was requested."""
        return

    def close(self) -> None:
        """Called in the end, whatever happened."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalWriter:
    """Which run of which playbook writes the journal."""

    store: ControlStore
    stream: str
    playbook: str
    run: str
    incident: str | None = None

    def write(
        self, step: Step[Any], phase: Phase, seconds: float | None = None, **found: Any
    ) -> None:
        """Write one line."""
        self.store.journal.write(
            stream=self.stream,
            playbook=self.playbook,
            run=self.run,
            incident=self.incident,
            step=step.name,
            phase=phase,
            seconds=seconds,
            detail={**step_fields(step), **found},
        )

    def perform(self, step: StepT, act: Callable[[StepT], StepResult]) -> StepDone[StepT]:
        """Carry a step out between its intent and its result."""
        self.write(step, Phase.INTENT, performer={"host": HOST, **asdict(ProcessHandle.this())})
        began = SYSTEM_CLOCK.monotonic()
        try:
            result = act(step)
        except BaseException as error:  # an interrupt, too: no other run should wait for this one
            hint = error.hint if isinstance(error, HoldfastError) else ""
            message = str(error) or type(error).__name__
            seconds = SYSTEM_CLOCK.monotonic() - began
            self.write(step, Phase.FAILED, seconds, error=message, hint=hint)
            raise
        seconds = SYSTEM_CLOCK.monotonic() - began
        self.write(step, Phase.DONE, seconds, **result.as_dict())
        return StepDone(step=step, seconds=seconds, result=result)


def was_abandoned(line: JournalLine) -> bool:
    """Whether a step was begun by a process of this host that is gone; of other hosts it is unknown."""
    performer = line.detail.get("performer") if line.phase is Phase.INTENT else None
    if performer is None or performer["host"] != HOST:
        return False
    return not ProcessHandle(performer["pid"], performer["started_at"]).is_alive()


def run_playbook(
    playbook: Playbook[FactsT, StepT], journal: JournalWriter
) -> Iterator[StepDone[StepT]]:
    """Record the request at once; then yield each step once it has been carried out."""
    playbook.begin()
    return _run(playbook, journal)


def plan_playbook(playbook: Playbook[FactsT, StepT]) -> list[StepT]:
    """What a playbook would do, as far as one look can tell; nothing is changed."""
    return plan_steps(playbook.preview(), playbook.decide)


def _run(playbook: Playbook[FactsT, StepT], journal: JournalWriter) -> Iterator[StepDone[StepT]]:
    try:
        for _ in range(MAX_STEPS):
            step = playbook.decide(playbook.observe())
            if step is None:
                playbook.conclude()
                return
            yield journal.perform(step, playbook.act)
    finally:
        playbook.close()
    raise PermanentError(
        f"the {journal.playbook} playbook of {journal.stream} did not end in {MAX_STEPS} steps",
        hint="compare its last steps in the journal with the replica's log",
    )


def do_nothing() -> None:
    """The default of `keep_alive`."""


@dataclass
class StreamPlaybook(Playbook[FactsT, StepT]):
    """A playbook for one stream of a project; `keep_alive` is called while a step waits."""

    world: Project
    stream: str
    run: str
    _: KW_ONLY
    keep_alive: Callable[[], None] = do_nothing

    def steps(self) -> Iterator[StepDone[StepT]]:
        """Run it; each step is yielded once it has been carried out."""
        return run_playbook(self, self.journal())

    def plan(self) -> list[StepT]:
        """What it would do, as far as one look can tell."""
        return plan_playbook(self)

    def journal(self) -> JournalWriter:
        """Where its steps are written down."""
        store = self.world.store
        return JournalWriter(store=store, stream=self.stream, playbook=self.name, run=self.run)
