"""The states of a replica: what it is to its stream, and what its query does."""

from enum import StrEnum


class Role(StrEnum):
    """What a replica is to its stream."""

    STANDBY = "standby"
    """It keeps ready what its tier asks for, and monitors the primary."""
    TAKING_OVER = "taking_over"
    """It has the slot of the primary, and waits for the lease and its token."""
    PRIMARY = "primary"
    """It has lease and slot: it processes and sends, and it ships snapshots."""
    LEAVING = "leaving"
    """A stop was requested, or its place is lost: it finishes what it has begun, and ends."""


class Processing(StrEnum):
    """What the query of a replica does."""

    STOPPED = "stopped"
    """It gets no epochs and need not run; a query that ran is kept until a newer state replaces its own."""
    HELD = "held"
    """It is ready behind the shut gate, on the newest state."""
    CATCHING_UP = "catching_up"
    """The gate is open, and it replays the epochs that were decided by then."""
    CAUGHT_UP = "caught_up"
    """The gate is open, and it processes epochs as they are decided."""

    @property
    def gate_is_open(self) -> bool:
        """Whether the query gets new epochs."""
        return self in (Processing.CATCHING_UP, Processing.CAUGHT_UP)
