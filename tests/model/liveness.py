"""Whether every state can come to rest: no replica, run or operator waits for ever, or goes round in a circle."""

from array import array
from collections import deque
from itertools import accumulate


class Moves:
    """The steps between states, by their numbers; faults do not count."""

    def __init__(self) -> None:
        self._from, self._to = array("L"), array("L")

    def add(self, before: int, after: int) -> None:
        self._from.append(before)
        self._to.append(after)

    def find_restless(self, at_rest: list[int], states: int) -> int | None:
        """The first state that can never come to rest."""
        reached = bytearray(states)
        for state in at_rest:
            reached[state] = 1
        ends, before = self._by_target(states)
        due = deque(at_rest)
        while due:
            state = due.popleft()
            for at in range(ends[state - 1] if state else 0, ends[state]):
                if not reached[before[at]]:
                    reached[before[at]] = 1
                    due.append(before[at])
        restless = reached.find(0)
        return None if restless < 0 else restless

    def _by_target(self, states: int) -> tuple[list[int], "array[int]"]:
        """The states before each state, one after the other, and where those of each state end."""
        counts = [0] * states
        for after in self._to:
            counts[after] += 1
        ends = list(accumulate(counts))
        free, before = list(ends), array("L", bytes(len(self._to) * array("L").itemsize))
        for source, after in zip(self._from, self._to, strict=True):
            free[after] -= 1
            before[free[after]] = source
        return ends, before
