"""Reading the progress of a query off Spark's checkpoint folder, without asking Spark."""

import json
from pathlib import Path
from uuid import uuid4


def last_committed(checkpoint: Path) -> int | None:
    """The newest epoch that Spark has finished, or `None` before the first."""
    return _newest(checkpoint / "commits")


def last_planned(checkpoint: Path) -> int | None:
    """The newest epoch that Spark has begun."""
    return _newest(checkpoint / "offsets")


def is_idle(checkpoint: Path) -> bool:
    """Whether every epoch that was begun is finished."""
    return last_planned(checkpoint) == last_committed(checkpoint)


def give_identity(checkpoint: Path) -> None:
    """Make the query on a copied checkpoint another one than the query on the original.

    Spark allows a query id to run once in a session: starting the copy would stop the original. The
    file is replaced and not written to, because it may be linked to the original's. Hadoop's checksum of
    the old one goes first: with it, the new one would pass for damaged.
    """
    metadata = checkpoint / "metadata"
    if metadata.exists():
        beside = checkpoint / ".metadata.new"
        beside.write_text(json.dumps({"id": str(uuid4())}, separators=(",", ":")))
        (checkpoint / ".metadata.crc").unlink(missing_ok=True)
        beside.rename(metadata)


def _newest(folder: Path) -> int | None:
    try:
        numbers = [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return None
    return max(numbers, default=None)
