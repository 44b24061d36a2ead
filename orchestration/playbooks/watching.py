"""Waiting for a stream to become what a step needs, without losing the claim meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ft_policies.recovery import Step, next_step
from resources.clock import SYSTEM_CLOCK
from resources.project import Project
from streaming.observing import StreamSeen, observe

LOOK_SECONDS = 0.25
SLACK_SECONDS = 5.0
NOT_DUE = "something else is to be done by now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Looks at one stream for one run; `beat` says that the run lives.

    Failures of secondaries from before the run are forgiven: it is there to try again.
    """

    world: Project
    stream: str
    began_at: float
    beat: Callable[[], None]

    def look(self) -> StreamSeen:
        """The stream as it is now."""
        self.beat()
        return observe(self.world, self.stream, secondaries_since=self.began_at)

    def is_due(self, step: Step, *, as_level: bool = False) -> bool:
        """Whether a step is still the one to take: people may want something else by now.

        With `as_level` the target of a migration counts as level, however far it is.
        """
        seen = self.look().observed()
        if as_level and seen.migration is not None:
            seen = replace(seen, migration=replace(seen.migration, level=True))
        return next_step(seen) == step

    def until(
        self,
        over: Callable[[StreamSeen], bool],
        *,
        patience_seconds: float,
        progress: Callable[[StreamSeen], object] = lambda _: None,
    ) -> bool:
        """Look again and again; false if it is not over when patience ends.

        Patience begins anew whenever `progress` gives something else than before.
        """
        deadline = SYSTEM_CLOCK.monotonic() + patience_seconds
        last: object = None
        while not over(seen := self.look()):
            now, current = SYSTEM_CLOCK.monotonic(), progress(seen)
            if current != last:
                deadline, last = now + patience_seconds, current
            elif now > deadline:
                return False
            SYSTEM_CLOCK.sleep(LOOK_SECONDS)
        return True

    @property
    def migration_seconds_left(self) -> float:
        """Until a migration that is under way is rolled back, and a moment to see that."""
        rollout = self.world.store.rollouts.open(self.stream)
        return (
            0.0
            if rollout is None
            else max(rollout.deadline_at - self.look().at, 0.0) + SLACK_SECONDS
        )

    @property
    def patience_seconds(self) -> float:
        """How long a replica may take to get going and to do something new."""
        return patience_seconds(self.world, self.stream)


def patience_seconds(world: Project, stream: str) -> float:
    """How long a step waits for a replica of the stream that does nothing new."""
    supervision = world.config.stream(stream).supervision
    return supervision.start_within + supervision.stuck_after
