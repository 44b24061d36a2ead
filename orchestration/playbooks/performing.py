"""The loop that carries a playbook out: look, decide, write the intent, act, write what was done."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Generic, TypeVar

from ft_policies.errors import HoldfastError, PermanentError
from resources.clock import SYSTEM_CLOCK
from resources.control.records import JournalLine, Phase
from resources.control.store import ControlStore
from resources.process import HOST, ProcessHandle

S = TypeVar("S")

MAX_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed(Generic[S]):
    """A step that has been carried out, and how long it took."""

    step: S
    seconds: float
    found: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The step's name, as journal and people know it."""
        return type(self.step).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Journaled:
    """Which run of which playbook writes the journal."""

    store: ControlStore
    stream: str
    playbook: str
    run: str
    incident: str | None = None

    def write(self, step: object, phase: Phase, seconds: float | None = None, **found: Any) -> None:
        """Write one line."""
        about = asdict(step) if is_dataclass(step) and not isinstance(step, type) else {}
        self.store.journal.write(
            stream=self.stream,
            playbook=self.playbook,
            run=self.run,
            incident=self.incident,
            step=type(step).__name__,
            phase=phase,
            seconds=seconds,
            detail={**about, **found},
        )


def was_left(line: JournalLine) -> bool:
    """Whether a step was begun by a process of this host that is gone; of other hosts nobody can tell."""
    performer = line.detail.get("performer") if line.phase is Phase.INTENT else None
    if performer is None or performer["host"] != HOST:
        return False
    return not ProcessHandle(performer["pid"], performer["started_at"]).is_alive()


def perform(
    decide: Callable[[], S | None],
    act: Callable[[S], Mapping[str, Any]],
    journal: Journaled,
) -> Iterator[Performed[S]]:
    """Yield each step once it has been carried out, until nothing is left to do."""
    for _ in range(MAX_STEPS):
        step = decide()
        if step is None:
            return
        journal.write(step, Phase.INTENT, performer={"host": HOST, **asdict(ProcessHandle.this())})
        began = SYSTEM_CLOCK.monotonic()
        try:
            found = act(step)
        except BaseException as error:  # an interrupt, too: nobody should wait for us any longer
            hint = error.hint if isinstance(error, HoldfastError) else ""
            told = str(error) or type(error).__name__
            journal.write(
                step, Phase.FAILED, SYSTEM_CLOCK.monotonic() - began, error=told, hint=hint
            )
            raise
        seconds = SYSTEM_CLOCK.monotonic() - began
        journal.write(step, Phase.DONE, seconds, **found)
        yield Performed(step=step, seconds=seconds, found=found)
    raise PermanentError(
        f"the {journal.playbook} playbook of {journal.stream} did not end in {MAX_STEPS} steps",
        hint="compare its last steps in the journal with the replica's log",
    )
