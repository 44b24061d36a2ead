"""What a chaos run shows while it goes, and says at its end."""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing that was done to a stream, and whether everything held."""

    part: str
    what: str
    seconds: float | None = None
    failure: str = ""
    refused: bool = False
    """It is a command that was refused as documented: nothing was done to the stream."""


@dataclass
class Report:
    """All trials of a run."""

    began: float = field(default_factory=time.monotonic)
    trials: list[Trial] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)

    def note(self, trial: Trial) -> None:
        """Keep a trial and show it."""
        self.trials.append(trial)
        took = "" if trial.seconds is None else f"next epoch after {trial.seconds:5.1f} s"
        ending = trial.failure or ("refused" if trial.refused else took)
        self.say(f"{trial.part:<22} {trial.what:<58} {ending}")

    def say(self, line: str) -> None:
        """One line, with the time since the beginning."""
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        sys.stdout.write(f"[{minutes:3d}:{seconds:02d}] {line}\n")
        sys.stdout.flush()

    @property
    def failed(self) -> list[Trial]:
        """What did not hold."""
        return [trial for trial in self.trials if trial.failure]

    def table(self) -> str:
        """One line for each part: how much was done, how long no epoch was committed."""
        head = f"{'part':<22} {'trials':>6} {'failed':>6} {'median s':>9} {'longest s':>9}"
        return "\n".join([head, "-" * len(head), *map(self._line, self._parts())])

    def _parts(self) -> Iterable[str]:
        return dict.fromkeys(trial.part for trial in self.trials)

    def _line(self, part: str) -> str:
        trials = [trial for trial in self.trials if trial.part == part]
        failed = sum(bool(trial.failure) for trial in trials)
        seconds = [trial.seconds for trial in trials if trial.seconds is not None]
        spans = f"{median(seconds):9.1f} {max(seconds):9.1f}" if seconds else f"{'-':>9} {'-':>9}"
        return f"{part:<22} {len(trials):>6} {failed:>6} {spans}"

    def verdict(self) -> str:
        """The end of the story in a sentence."""
        if self.failed:
            return f"{len(self.failed)} of {len(self.trials)} trials did not hold"
        if self.undone:
            return f"all {len(self.trials)} trials held; out of time in: {', '.join(self.undone)}"
        return f"all {len(self.trials)} trials held"

    def exit_code(self) -> int:
        """0: all done and all held, 1: something did not hold, 2: out of time."""
        return 1 if self.failed else 2 if self.undone else 0
