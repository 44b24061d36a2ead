"""`holdfast logs`: what a replica wrote."""

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

LOOK_SECONDS = 0.3


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(epilog="Example:  holdfast logs word_count --follow --lines 20")(logs)


def logs(
    ctx: typer.Context,
    *,
    stream: Stream,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many to begin with.")
    ] = 50,
    replica: Annotated[
        str | None, typer.Option(metavar="ID", help="This one, instead of the primary.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="What Spark wrote, instead of the replica's own log.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the log of a stream's primary, or else of its newest replica; --follow goes on with the next."""
    tell = terminal(ctx)
    with tell.world() as world:
        row = _row(world, stream, replica)
        path = _file(row, spark=spark)
        if as_json:
            found = list(last_lines(path, lines))
            tell.json({"stream": stream, "replica": row.id, "file": str(path), "lines": found})
            return
        for line in last_lines(path, lines):
            typer.echo(line)
        if follow:
            named = replica is not None
            _follow(path, lambda: path if named else _file(_row(world, stream, None), spark=spark))


def last_lines(path: Path, count: int) -> Iterator[str]:
    """The end of a log file, or nothing if there is none yet."""
    if not path.exists():
        return
    with path.open(errors="replace") as log:
        for line in deque(log, maxlen=count):
            yield line.rstrip("\n")


def grown(path: Path, position: int) -> tuple[str, int]:
    """What a log has got since a position; a file that was begun anew is read from its start."""
    size = path.stat().st_size if path.exists() else 0
    if size == position:
        return "", position
    with path.open("rb") as log:
        log.seek(position if size > position else 0)
        text = log.read()
        return text.decode(errors="replace"), log.tell()


def _follow(path: Path, shown: Callable[[], Path]) -> None:
    from holdfast.resources.clock import SYSTEM_CLOCK

    position = path.stat().st_size if path.exists() else 0
    while True:  # until Ctrl-C
        text, position = grown(path, position)
        typer.echo(text, nl=False)
        current = shown()
        if current != path:
            typer.echo(f"--- {current.parent.name} ---")
            path, position = current, 0
        SYSTEM_CLOCK.sleep(LOOK_SECONDS)


def _row(world: "Project", stream: str, replica: str | None) -> "ReplicaRow":
    """The replica that was named; otherwise the live primary, or the newest if there is none."""
    from holdfast.resources.control_store.records import Slot

    world.config.stream(stream)
    rows = world.store.replicas.of(stream, live=False)
    primary = [row for row in rows if row.slot is Slot.PRIMARY and not row.state.ended]
    found = primary or rows if replica is None else [row for row in rows if row.id == replica]
    if found:
        return found[0]
    if replica is None:
        raise PermanentError(
            f"{stream} never had a replica", hint=f"`holdfast start {stream}` starts one"
        )
    known = ", ".join(row.id for row in rows[:5]) or "none"
    raise PermanentError(f"{stream} never had a replica {replica}", hint=f"newest are: {known}")


def _file(row: "ReplicaRow", *, spark: bool) -> Path:
    from holdfast.resources.process import HOST

    if row.host != HOST:
        raise PermanentError(f"{row.id} is on {row.host}", hint="its log is there")
    return Path(row.folder) / ("spark.log" if spark else "replica.log")
