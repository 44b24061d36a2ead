"""The kinds of incidents. The values are stored, so they never change.

The module imports nothing, because the data source opens incidents, too, in a process that loads as little as
possible.
"""

from enum import StrEnum


class IncidentKind(StrEnum):
    """What an incident is about."""

    RECOVERY = "recovery"
    """A primary or a secondary was lost, or a replica was left behind by a stop."""
    INPUT_AWAY = "input_away"
    TIER_NOT_COVERED = "tier_not_covered"
    DIGEST_DIFFERS = "digest_differs"
    """A replica computed other rows for an epoch than were committed."""
    INPUT_DIFFERS = "input_differs"
    """The output table has an epoch with another input than the epoch log."""
    OUTPUT_LOST = "output_lost"
    """The output table lacks epochs that the ledger has."""
    INPUT_REUSED = "input_reused"
    """A file has changed since an epoch was decided with it."""
    INPUT_REAPPEARED = "input_reappeared"
    """A file is older than those whose names are forgotten, so that it may have been read before."""
    SNAPSHOTS_LOST = "snapshots_lost"
    SNAPSHOT_DAMAGED = "snapshot_damaged"


LASTING = frozenset({IncidentKind.INPUT_AWAY, IncidentKind.TIER_NOT_COVERED})
"""The kinds that a sensor opens when a state has lasted long, and closes when it is over."""
