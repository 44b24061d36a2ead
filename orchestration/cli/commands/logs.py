"""`holdfast logs`: the log of a replica."""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.cli.terminal import JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.resources.control_store.records import ReplicaRow
    from holdfast.resources.project import Project

POLL_SECONDS = 0.3


def register(app: typer.Typer) -> None:
    app.command(epilog="Example:  holdfast logs word_count --follow --lines 20")(logs)


def logs(
    ctx: typer.Context,
    *,
    stream: Stream,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines.")] = 50,
    replica: Annotated[
        str | None, typer.Option(metavar="ID", help="The replica. Default: the primary.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Spark's log instead of the replica's.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the log of a stream's primary, or of its newest replica if none is live.

    --follow continues with the next primary after a failover.
    """
    term = terminal(ctx)
    with term.open_project() as project:
        row = _find_replica(project, stream, replica)
        path = _log_file(row, spark=spark)
        if as_json:
            tail = list(read_last_lines(path, lines))
            term.json({"stream": stream, "replica": row.id, "file": str(path), "lines": tail})
            return
        for line in read_last_lines(path, lines):
            typer.echo(line)
        if follow:

            def find_current() -> Path:
                if replica is not None:
                    return path
                return _log_file(_find_replica(project, stream, None), spark=spark)

            _follow(path, find_current)


def read_last_lines(path: Path, count: int) -> Iterator[str]:
    """Read the end of a log file; nothing if it does not exist yet."""
    if not path.exists():
        return
    with path.open(errors="replace") as log:
        for line in deque(log, maxlen=count):
            yield line.rstrip("\n")


def read_since(path: Path, position: int) -> tuple[str, int]:
    """Read what was appended after a position; a truncated file is read from its start."""
    size = path.stat().st_size if path.exists() else 0
    if size == position:
        return "", position
    with path.open("rb") as log:
        log.seek(position if size > position else 0)
        text = log.read()
        return text.decode(errors="replace"), log.tell()


def _follow(path: Path, find_current: Callable[[], Path]) -> None:
    from holdfast.resources.clock import SYSTEM_CLOCK

    position = path.stat().st_size if path.exists() else 0
    while True:  # until Ctrl-C
        text, position = read_since(path, position)
        typer.echo(text, nl=False)
        current = find_current()
        if current != path:
            typer.echo(f"--- {current.parent.name} ---")
            path, position = current, 0
        SYSTEM_CLOCK.sleep(POLL_SECONDS)


def _find_replica(project: "Project", stream: str, replica: str | None) -> "ReplicaRow":
    """Find the named replica; without a name the live primary, or else the newest replica."""
    from holdfast.resources.control_store.records import Slot

    project.config.stream(stream)
    rows = project.store.replicas.of(stream, live=False)
    primary = [row for row in rows if row.slot is Slot.PRIMARY and not row.state.ended]
    matches = primary or rows if replica is None else [row for row in rows if row.id == replica]
    if matches:
        return matches[0]
    if replica is None:
        raise PermanentError(
            f"{stream} never had a replica", hint=f"run `holdfast start {stream}` to start one"
        )
    newest = ", ".join(row.id for row in rows[:5]) or "none"
    raise PermanentError(
        f"{stream} never had a replica {replica}", hint=f"give one of the newest: {newest}"
    )


def _log_file(row: "ReplicaRow", *, spark: bool) -> Path:
    from holdfast.resources.process import HOST

    if row.host != HOST:
        raise PermanentError(
            f"the log of {row.id} is on another host: {row.host}", hint=f"run this on {row.host}"
        )
    return Path(row.folder) / ("spark.log" if spark else "replica.log")
