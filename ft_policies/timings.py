"""How long replicas, sensors and playbooks wait for each other: all in one value, derived and checked once.

A wait in one process has to outlast what another process may take, so both are defined here. A
period that matters to one module only stays in that module.
"""

from dataclasses import dataclass
from typing import Self

from holdfast.ft_policies.errors import PermanentError

LAUNCH_WITHIN_SECONDS = 15.0
DRAIN_WITHIN_SECONDS = 60.0
LEAVE_WITHIN_SECONDS = 90.0
EXIT_WITHIN_SECONDS = 60.0
BETWEEN_STEPS_SECONDS = 5.0
HAND_OVER_WITHIN_SECONDS = 10.0
SLACK_SECONDS = 5.0
DRILL_WITHIN_SECONDS = 3600.0
SNAPSHOT_WITHIN_SECONDS = 120.0

_SECONDARY_LEASES = 3  # no epoch waits for a secondary, and it may run at low priority
_DISPATCH_SECONDS = 15.0  # the sensor's tick and the start of a run
_TAKEOVER_SECONDS = 10.0  # a secondary that is ready takes the lease and opens its gate
_RELAUNCH_SECONDS = 30.0  # the dispatch of a run, and its first steps


class TimingError(PermanentError):
    """Two periods contradict each other; `field` is the name of the one to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, hint=f"change {field}")
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The periods and time limits of one stream, in seconds.

    The first four are declared, the next six follow from them, the others are the same for all streams.
    """

    heartbeat_seconds: float
    lease_seconds: float
    stuck_after_seconds: float
    start_within_seconds: float

    secondary_lease_seconds: float
    """The silence after which a secondary counts as lost."""
    detect_seconds: float
    """The longest time until a secondary detects the loss of its primary."""
    dispatch_seconds: float
    """The longest time until a recovery run begins for a lost primary without a secondary."""
    progress_within_seconds: float
    """A replica has started and made progress by then, or the step that waits for it fails."""
    takeover_within_seconds: float
    """A secondary that has not taken over by then makes room for a new primary."""
    relaunch_within_seconds: float
    """A primary that was lost in a drill is back, or being replaced, by then."""

    launch_within_seconds: float = LAUNCH_WITHIN_SECONDS
    """From the registration of a replica, or the request to start it, until its process runs."""
    drain_within_seconds: float = DRAIN_WITHIN_SECONDS
    """A query that was asked to stop finishes its epoch by then, or the epoch is replayed."""
    leave_within_seconds: float = LEAVE_WITHIN_SECONDS
    """A replica that was asked to leave has ended by then, or is ended by force."""
    exit_within_seconds: float = EXIT_WITHIN_SECONDS
    """The process of a replica that has ended is gone by then, or is killed."""
    between_steps_seconds: float = BETWEEN_STEPS_SECONDS
    """A playbook begins its next step by then; later, it counts as abandoned."""
    hand_over_within_seconds: float = HAND_OVER_WITHIN_SECONDS
    """From the end of the old primary in a migration until its target is launched."""
    slack_seconds: float = SLACK_SECONDS
    """What is due has happened by then, and was observed."""

    def __post_init__(self) -> None:
        """Fail with a `TimingError` if two periods contradict each other."""
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise TimingError(
                "lease",
                f"must be at least two heartbeats ({2 * self.heartbeat_seconds:g} s): "
                "a single late heartbeat would lose the lease",
            )
        if self.secondary_lease_seconds < self.lease_seconds:
            raise TimingError("secondary_lease", "must be at least the lease of a primary")
        if self.dispatch_seconds < self.detect_seconds:
            raise TimingError("dispatch", "must be at least the time until a loss is detected")
        if self.leave_within_seconds <= self.drain_within_seconds:
            raise TimingError(
                "leave_within",
                f"must be longer than the last epoch may take ({self.drain_within_seconds:g} s)",
            )

    @classmethod
    def derive(
        cls, *, heartbeat: float, lease: float, stuck_after: float, start_within: float
    ) -> Self:
        """The timings that follow from the declared periods."""
        return cls(
            heartbeat_seconds=heartbeat,
            lease_seconds=lease,
            stuck_after_seconds=stuck_after,
            start_within_seconds=start_within,
            secondary_lease_seconds=_SECONDARY_LEASES * lease,
            detect_seconds=lease + heartbeat,
            dispatch_seconds=lease + heartbeat + _DISPATCH_SECONDS,
            progress_within_seconds=start_within + stuck_after,
            takeover_within_seconds=_TAKEOVER_SECONDS + 2 * lease,
            relaunch_within_seconds=_RELAUNCH_SECONDS + 2 * lease,
        )

    @property
    def second_look_seconds(self) -> float:
        """A silent primary that lives has sent a heartbeat by then, also if a clock was set meanwhile."""
        return 2 * self.heartbeat_seconds

    @property
    def gone_within_seconds(self) -> float:
        """A replica that was asked to leave is gone by then, with its process."""
        return self.leave_within_seconds + self.exit_within_seconds
