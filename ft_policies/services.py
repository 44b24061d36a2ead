"""When a process of a service that ended is started again, and which recovery goes first."""

from dataclasses import dataclass

RECOVERY_PRIORITY = 100
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Start again after a pause that doubles with each end in a row; a process that ran for long starts afresh."""

    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 60.0
    steady_seconds: float = 60.0
    start_seconds: float = 20.0

    def is_failed_start(self, launches: int, *, ran_seconds: float) -> bool:
        """Whether the process never worked: the first one ended at once."""
        return launches == 1 and ran_seconds < self.start_seconds

    def count(self, ends_in_a_row: int, *, ran_seconds: float) -> int:
        """How many times in a row the process has ended, after it ended once more."""
        return 1 if ran_seconds >= self.steady_seconds else ends_in_a_row + 1

    def pause(self, ends_in_a_row: int) -> float:
        doublings = min(ends_in_a_row - 1, 10)
        return min(self.first_pause_seconds * 2.0**doublings, self.longest_pause_seconds)


def recovery_priority(objective_seconds: float) -> int:
    """The place of a recovery in the queue of runs: the tighter the objective, the higher."""
    return RECOVERY_PRIORITY + max(0, DAY_SECONDS - round(objective_seconds))
