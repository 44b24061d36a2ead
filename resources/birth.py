"""The day on which a project was opened first: its reports begin there."""

from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

from holdfast.resources.private import write_private_once

FILE = "born"


def record_birth(home: Path, at: float) -> None:
    """Record the day (UTC), unless one is recorded; on a full disk the next opening does it."""
    file = home / FILE
    if file.exists():
        return
    with suppress(OSError):
        write_private_once(file, f"{datetime.fromtimestamp(at, UTC).date()}\n")


def read_birth(home: Path) -> date | None:
    """The day of the first opening; `None` before it."""
    file = home / FILE
    return date.fromisoformat(file.read_text().strip()) if file.exists() else None
