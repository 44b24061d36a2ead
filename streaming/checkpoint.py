"""Reading the progress of a query off Spark's checkpoint folder, without asking Spark."""

from pathlib import Path


def last_committed(checkpoint: Path) -> int | None:
    """The newest epoch that Spark has finished, or `None` before the first."""
    return _newest(checkpoint / "commits")


def last_planned(checkpoint: Path) -> int | None:
    """The newest epoch that Spark has begun."""
    return _newest(checkpoint / "offsets")


def is_idle(checkpoint: Path) -> bool:
    """Whether every epoch that was begun is finished."""
    return last_planned(checkpoint) == last_committed(checkpoint)


def _newest(folder: Path) -> int | None:
    try:
        numbers = [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return None
    return max(numbers, default=None)
