"""The playbook type, and the loop that runs one: observe, decide, write the intent, act, write the result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from holdfast.ft_policies import quantities
from holdfast.ft_policies.errors import HoldfastError, PermanentError
from holdfast.ft_policies.playbooks.base import Step, plan_steps, step_fields
from holdfast.ft_policies.playbooks.recover.steps import switch_change
from holdfast.resources.control_store.records import JournalLine, Phase
from holdfast.resources.process import BOOT, HOST, ProcessHandle, is_visible
from holdfast.resources.project import Project

FactsT = TypeVar("FactsT")
StepT = TypeVar("StepT", bound=Step[Any])
StepT_co = TypeVar("StepT_co", bound=Step[Any], covariant=True)

MAX_STEPS = 50
SUPERSEDED = "another step is due by now"


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step; a step that has something to report returns a subclass."""

    @property
    def failure(self) -> str:
        """Why the step did not reach what it was for, although the playbook goes on; empty if it did."""
        return ""

    def as_dict(self) -> dict[str, Any]:
        """The result for the journal and for JSON, without unknown values."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return {**fields, "failed": self.failure} if self.failure else fields


@dataclass(frozen=True, slots=True)
class StepSkipped(StepResult):
    """The step was skipped: another one is due now."""

    skipped: str = SUPERSEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone(Generic[StepT_co]):
    """A step that was carried out, and how long it took."""

    step: StepT_co
    seconds: float
    result: StepResult

    @property
    def name(self) -> str:
        return self.step.name


@dataclass(frozen=True, slots=True)
class InnerSteps(StepResult):
    """The steps that another playbook did inside a step."""

    done: Sequence[StepDone[Any]]

    @property
    def failure(self) -> str:
        """Which of the steps failed, and why."""
        failed = [done for done in self.done if done.result.failure]
        return "; ".join(f"{done.name}: {done.result.failure}" for done in failed)

    def as_dict(self) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for done in self.done:
            results |= done.result.as_dict()
        results["steps"] = ", ".join(
            f"{done.name} {quantities.seconds(done.seconds)}" for done in self.done
        )
        return {**results, "failed": self.failure} if self.failure else results


class Playbook(Protocol[FactsT, StepT]):
    """Changes a stream one step at a time; each step is decided from facts alone.

    A run may die at any point; the next one observes again and continues from there. So each action must
    be safe to repeat.
    """

    name: ClassVar[str]

    def observe(self) -> FactsT: ...

    def decide(self, facts: FactsT) -> StepT | None:
        """Choose the next step; `None` when nothing is left to do."""
        ...

    def act(self, step: StepT) -> StepResult:
        """Carry out a step."""
        ...

    def begin(self) -> None:
        """Check and record the request, before the first observation; raises if it is refused."""
        return

    def preview(self) -> FactsT:
        """The facts that `begin` would lead to, without doing it; raises if it would be refused."""
        return self.observe()

    def conclude(self) -> None:
        """Called when nothing is left to do; raises if the request was not fulfilled."""
        return

    def close(self) -> None:
        """Called at the end, also after an error."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalWriter:
    """Writes the steps of one run to the journal."""

    project: Project
    stream: str
    playbook: str
    run: str
    incident: str | None = None

    def write(
        self, step: Step[Any], phase: Phase, seconds: float | None = None, **result: Any
    ) -> None:
        self.project.store.journal.write(
            stream=self.stream,
            playbook=self.playbook,
            run=self.run,
            incident=self.incident,
            step=step.name,
            phase=phase,
            seconds=seconds,
            detail={**step_fields(step), **result},
        )

    def perform(self, step: StepT, act: Callable[[StepT], StepResult]) -> StepDone[StepT]:
        """Write the intent, carry out the step, and write the result or the error."""
        performer = {"host": HOST, "boot": BOOT, **asdict(ProcessHandle.this())}
        self.write(step, Phase.INTENT, performer=performer)
        clock = self.project.clock
        began = clock.monotonic()
        try:
            result = act(step)
        except BaseException as error:  # an interrupt, too: no other run should wait for this one
            hint = error.hint if isinstance(error, HoldfastError) else ""
            message = str(error) or type(error).__name__
            seconds = clock.monotonic() - began
            self.write(step, Phase.FAILED, seconds, error=message, hint=hint)
            raise
        seconds = clock.monotonic() - began
        self.write(step, Phase.DONE, seconds, **result.as_dict())
        return StepDone(step=step, seconds=seconds, result=result)


def was_abandoned(line: JournalLine) -> bool:
    """Whether the process that began a step is gone; false for processes of other hosts, which are not visible."""
    performer = line.detail.get("performer") if line.phase is Phase.INTENT else None
    if performer is None or not is_visible(performer["host"], performer.get("boot", "")):
        return False
    return not ProcessHandle(performer["pid"], performer["started_at"]).is_alive()


def journal_title(step: str, detail: Mapping[str, Any]) -> str:
    """The title of a step in the journal."""
    return f"{step} {switch_change(detail) or ''}".rstrip()


def run_playbook(
    playbook: Playbook[FactsT, StepT], journal: JournalWriter
) -> Iterator[StepDone[StepT]]:
    """Record the request at once; then yield each step when it is done."""
    playbook.begin()
    return _run(playbook, journal)


def plan_playbook(playbook: Playbook[FactsT, StepT]) -> list[StepT]:
    """Plan the steps of a playbook from one observation; nothing is changed."""
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
        f"the {journal.playbook} playbook of {journal.stream} did not end within {MAX_STEPS} steps",
        hint="compare its last steps in the journal with the log of the replica",
    )


def do_nothing() -> None:
    """The default of `keep_alive`."""


@dataclass
class StreamPlaybook(Playbook[FactsT, StepT]):
    """A playbook for one stream of a project; `keep_alive` is called while a step waits."""

    project: Project
    stream: str
    run: str
    _: KW_ONLY
    keep_alive: Callable[[], None] = do_nothing

    def steps(self) -> Iterator[StepDone[StepT]]:
        """Run the playbook; yield each step when it is done."""
        return run_playbook(self, self.journal())

    def plan(self) -> list[StepT]:
        """Plan its steps from one observation; nothing is changed."""
        return plan_playbook(self)

    def journal(self) -> JournalWriter:
        return JournalWriter(
            project=self.project, stream=self.stream, playbook=self.name, run=self.run
        )
