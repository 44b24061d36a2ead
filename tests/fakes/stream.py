"""A stream in memory whose recovery can be killed before or after any action."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitCatchUp,
    AwaitPrimaryExit,
    Fence,
    GiveUp,
    Launch,
    RecoverFacts,
    RecoverStep,
)


class Crash(BaseException):
    """The process that performs the playbook dies; no handler may swallow it."""


@dataclass
class SimulatedStream:
    """A stream as the recover playbook sees it; every action may be repeated.

    `die` names the actions, by their number over all runs, before or after which the run dies.
    """

    health: Health
    primary: str | None
    die: dict[int, str] = field(default_factory=dict)
    token: int = 1
    launched: int = 0
    live: int = 0
    acted: int = 0
    wanted: bool = True
    failures: int = 0

    def observed(self) -> RecoverFacts:
        return RecoverFacts(
            verdict=HealthVerdict(self.health, "as simulated"),
            primary=self.primary,
            token=self.token,
            failures_in_a_row=self.failures,
        )

    def recover(self) -> Iterator[RecoverStep]:
        while (step := next_step(self.observed())) is not None:
            self.acted += 1
            fate = self.die.get(self.acted)
            if fate == "before":
                raise Crash
            self._act(step)
            if fate == "after":
                raise Crash
            yield step
            if isinstance(step, GiveUp):
                return

    def _act(self, step: RecoverStep) -> None:
        match step:
            case Fence():
                self._fence(step)
            case Launch():
                if self.primary is None:
                    self.launched += 1
                    self.live += 1
                    self.primary, self.health = f"words-{self.launched}", Health.STARTING
            case AwaitCatchUp():
                self.health = Health.HEALTHY
            case AwaitPrimaryExit():
                self.primary = None
                self.live -= 1
                self.health = Health.MISSING if self.wanted else Health.STOPPED
            case GiveUp():
                self.wanted = False
            case _:
                raise AssertionError(f"{step} in a stream without a secondary")

    def _fence(self, step: Fence) -> None:
        if step.token == self.token:
            self.token += 1
        if step.primary == self.primary:
            self.primary, self.health = None, Health.MISSING
            self.live -= 1
