"""A host whose clock is set while processes run: a file has the seconds that it is ahead.

`sitecustomize.py` in a project's folder installs it in all processes that have the folder on their path. Replicas,
commands and Dagster then agree on the time, as processes of one host do. Light, since Spark's workers import it.
"""

from pathlib import Path

from holdfast.resources.clock import SystemClock

FILE = "clock_ahead_seconds"


def follow_clock(project: Path) -> None:
    """Give this process, and those that are started with the project's folder on their path, a clock that can be set."""
    set_clock(project, 0.0)
    (project / "sitecustomize.py").write_text(
        f"from {__name__} import install\ninstall({str(project / FILE)!r})\n"
    )
    install(str(project / FILE))


def set_clock(project: Path, ahead_seconds: float) -> None:
    """Set the clock of all of them."""
    scratch = project / f"{FILE}.tmp"
    scratch.write_text(str(ahead_seconds))
    scratch.replace(project / FILE)


def install(file: str) -> None:
    """Read the time of this process, and of a SQLite control store in it, with what the file has ahead."""
    path, true_now = Path(file), SystemClock.now

    def now(clock: SystemClock) -> float:
        return true_now(clock) + float(path.read_text())

    SystemClock.now = now  # type: ignore[method-assign]
