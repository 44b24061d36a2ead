"""What a soak counts: faults that were injected and survived, commands that were done and refused, and what never came."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.chaos.report import Report, Trial
from tests.chaos.soak_plan import KINDS, Engine, Kind, Role


@dataclass(kw_only=True)
class SoakReport(Report):
    """All trials of a soak over these kinds of faults."""

    names: tuple[str, ...]
    engine: Engine

    def count_faults(self) -> dict[str, dict[str, int]]:
        """How many faults of each kind were injected, and how many survived; a refused command injects nothing."""
        counts = {}
        for kind in self._kinds():
            if kind.role is not Role.READ:
                trials = [trial for trial in self._trials(kind.name) if not trial.refused]
                survived = sum(not trial.failure for trial in trials)
                counts[kind.name] = {"injected": len(trials), "survived": survived}
        return counts

    def count_commands(self) -> dict[str, dict[str, int]]:
        """How many commands of each kind ran to their end, and how many of them were done, and refused."""
        counts = {}
        for kind in self._kinds():
            if kind.role is not Role.FAULT:
                trials = self._trials(kind.name)
                refused = sum(trial.refused and not trial.failure for trial in trials)
                failed = sum(bool(trial.failure) for trial in trials)
                done = len(trials) - refused - failed
                counts[kind.name] = {"run": len(trials), "done": done, "refused": refused}
        return counts

    def count_checks(self, checks: Iterable[str]) -> dict[str, dict[str, int]]:
        """How often each check of the whole was made, and how often it held."""
        trials = {check: self._trials(check) for check in checks}
        return {
            check: {"made": len(made), "held": sum(not trial.failure for trial in made)}
            for check, made in trials.items()
        }

    def never_injected(self) -> list[str]:
        """The kinds of faults that did not come, commands apart."""
        commands = self.count_commands()
        counts = self.count_faults().items()
        return [name for name, count in counts if not count["injected"] and name not in commands]

    def never_done(self) -> list[str]:
        """The commands of which none ended with success."""
        return [name for name, count in self.count_commands().items() if not count["done"]]

    def as_dict(self) -> dict[str, Any]:
        """The counts with their two sums."""
        faults, commands = self.count_faults(), self.count_commands()
        return {
            "faults": {**_sum(faults, ("injected", "survived")), "kinds": faults},
            "commands": {**_sum(commands, ("run", "done", "refused")), "kinds": commands},
            "never_injected": self.never_injected(),
            "never_done": self.never_done(),
        }

    def table(self) -> str:
        """Below the line of each part, the commands and the two sums."""
        facts = self.as_dict()
        faults, commands = facts["faults"], facts["commands"]
        head = f"{'command':<22} {'run':>6} {'done':>6} {'refused':>8}"
        rows = [
            f"{name:<22} {count['run']:>6} {count['done']:>6} {count['refused']:>8}"
            for name, count in commands["kinds"].items()
        ]
        sums = [
            f"faults: {faults['injected']} injected, {faults['survived']} survived (commands that were done included)",
            f"commands: {commands['run']} run, {commands['done']} done, {commands['refused']} refused",
        ]
        return "\n".join([super().table(), "", head, "-" * len(head), *rows, "", *sums])

    def verdict(self) -> str:
        """The end of the story, with what it does not tell."""
        remarks = [f"engine {self.engine}: a full proof has a run on each of {', '.join(Engine)}"]
        if names := self.never_injected():
            remarks.append(f"never injected: {', '.join(names)}")
        if names := self.never_done():
            remarks.append(f"never ended with success: {', '.join(names)}")
        return "\n".join([super().verdict(), *remarks])

    def _kinds(self) -> list[Kind]:
        return [kind for kind in KINDS if kind.name in self.names]

    def _trials(self, part: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.part == part]


def _sum(counts: dict[str, dict[str, int]], names: tuple[str, ...]) -> dict[str, int]:
    return {name: sum(count[name] for count in counts.values()) for name in names}
