"""`holdfast snapshots …`: what is in the object store, and whether it is good."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.playbook import PlaybookCommand
from holdfast.orchestration.cli.storage import storage
from holdfast.orchestration.cli.terminal import (
    DONE,
    FAILED,
    NOTE,
    DryRunOption,
    JsonOption,
    Stream,
    Terminal,
    terminal,
)

if TYPE_CHECKING:
    from holdfast.resources.project import Project

app = typer.Typer(no_args_is_help=True, help="List, check, prove, restore and prune snapshots.")

Snapshot: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="ID", show_default=False, help="A snapshot's id; the newest one if it is left out."
    ),
]


@app.command("list", epilog="Example:  holdfast snapshots list word_count")
def list_snapshots(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """List the snapshots in the object store, newest first."""
    from holdfast.orchestration.cli.stored import listed

    tell = terminal(ctx)
    with storage(tell, stream) as world:
        found = listed(world, stream)
        now = world.store.now()
    if as_json:
        tell.json({"stream": stream, "snapshots": found})
        return
    if not found:
        tell.out.print(f"{stream} has no snapshot")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("snapshot", "age", "epoch", "files", "size", "new", "took", "proven", "state"):
        table.add_column(name, justify="left" if name in ("snapshot", "state") else "right")
    for one in found:
        table.add_row(
            one.id,
            words.age(now - one.created_at),
            words.count(one.epoch),
            words.count(one.files),
            words.size(one.total_bytes),
            words.size(one.new_bytes),
            words.seconds(one.seconds),
            words.proof(one.proven_at and now - one.proven_at, one.proven_seconds),
            escape(one.state + (f": {one.reason}" if one.reason else "")),
        )
    tell.out.print(table)


@app.command(epilog="Example:  holdfast snapshots show word_count  (the newest)")
def show(
    ctx: typer.Context,
    *,
    stream: Stream,
    snapshot: Snapshot = None,
    files: Annotated[bool, typer.Option("--files", help="List the files one by one.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a manifest: packs and how much of each is live, files, and the conf that must match."""
    from holdfast.orchestration.cli.manifests import rendered
    from holdfast.orchestration.cli.stored import described

    tell = terminal(ctx)
    with storage(tell, stream) as world:
        facts = described(world, stream, snapshot or newest_id(world, stream))
        now = world.store.now()
    if as_json:
        tell.json(facts)
        return
    tell.out.print(*rendered(facts, now=now, with_files=files), sep="\n")


@app.command(epilog="Examples:  holdfast snapshots verify word_count  ·  … verify word_count --all")
def verify(
    ctx: typer.Context,
    *,
    stream: Stream,
    snapshot: Snapshot = None,
    every: Annotated[
        bool, typer.Option("--all", help="All snapshots, not only the newest.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read snapshots in full and check every digest; leaves with 1 if one is damaged."""
    from holdfast.resources.vault.catalogue import verify as verify_snapshot

    tell = terminal(ctx)
    with storage(tell, stream) as world:
        if every:
            ids = [record.id for record in world.vault(stream).list()]
        else:
            ids = [snapshot or newest_id(world, stream)]
        problems: dict[str, list[str]] = {}
        with _bar(tell, MofNCompleteColumn(), quiet=as_json) as (bar, task):
            bar.update(task, description=f"verifying {stream}", total=len(ids))
            for one in ids:
                problems[one] = verify_snapshot(world, stream, one)
                bar.advance(task)
    if as_json:
        tell.json(
            {"stream": stream, "snapshots": [{"id": i, "problems": p} for i, p in problems.items()]}
        )
    else:
        for one, found in problems.items():
            tell.out.print(f"{FAILED if found else DONE} {one}  {'damaged' if found else 'good'}")
            for problem in found:
                tell.out.print(f"  [red]{escape(problem)}[/red]")
    raise typer.Exit(1 if any(problems.values()) else 0)


@app.command(epilog="Example:  holdfast snapshots prove word_count  (the newest)")
def prove(
    ctx: typer.Context,
    *,
    stream: Stream,
    snapshot: Snapshot = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prove that a snapshot restores: go on from it for one epoch, and compare with what was committed.

    It starts Spark in a scratch folder, sends nothing, and leaves the stream alone.
    """
    from holdfast.orchestration.playbooks.prove import Prove

    def build(world: "Project", stream: str, run: str) -> Prove:
        return Prove(world, stream, run, snapshot=snapshot)

    def command(world: "Project") -> PlaybookCommand:
        return PlaybookCommand(
            tell=tell, world=world, build=build, nothing_to_do="is proven", as_json=as_json
        )

    tell = terminal(ctx)
    if dry_run:  # the catalogue has all that a plan needs: no object store is started for it
        with tell.world() as world:
            command(world).plan(stream)
        return
    with storage(tell, stream) as world:
        command(world).run(stream)


@app.command(epilog="Example:  holdfast snapshots restore word_count --epoch 120 --into /tmp/look")
def restore(
    ctx: typer.Context,
    *,
    stream: Stream,
    snapshot: Snapshot = None,
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="A folder that does not exist yet.")],
    epoch: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The newest one up to this epoch.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a checkpoint back into a new folder, every digest verified."""
    if snapshot is not None and epoch is not None:
        raise typer.BadParameter("give a snapshot's ID or --epoch, not both")
    tell = terminal(ctx)
    with storage(tell, stream) as world:
        vault = world.vault(stream)
        manifest = vault.manifest(snapshot or newest_id(world, stream, at_most_epoch=epoch))
        with _bar(tell, DownloadColumn(), quiet=as_json) as (bar, task):
            bar.update(task, description=f"restoring {manifest.id}", total=manifest.state_bytes)
            restored = vault.restore(manifest, into, progress=_steps(bar, task))
    if as_json:
        tell.json(
            {"id": manifest.id, "epoch": manifest.epoch, "folder": str(into), "restored": restored}
        )
        return
    tell.out.print(
        f"{DONE} {manifest.id} is in {escape(str(into))}: {words.plural(restored.files, 'file')}, "
        f"{words.size(restored.bytes)}, {words.plural(restored.requests, 'request')}, "
        f"{words.seconds(restored.seconds)}"
    )


@app.command(epilog="Example:  holdfast snapshots prune word_count --dry-run")
def prune(
    ctx: typer.Context,
    *,
    stream: Stream,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Drop the snapshots that the stream's retention does not keep, and say why for each."""
    from holdfast.resources.vault.catalogue import prune as prune_snapshots

    tell = terminal(ctx)
    with storage(tell, stream) as world:
        outcome = prune_snapshots(world, stream, dry_run=dry_run)
    if as_json:
        tell.json({"stream": stream, "dry_run": dry_run, "pruned": outcome})
        return
    table = Table("snapshot", "verdict", "because", box=None, pad_edge=False)
    for verdict in outcome.verdicts:
        word = "[green]keep[/green]" if verdict.keep else "[red]drop[/red]"
        table.add_row(verdict.snapshot.id, word, escape("; ".join(verdict.reasons)))
    tell.out.print(table)
    would = "would be dropped" if dry_run else "dropped"
    tell.out.print(
        f"{DONE} {words.plural(len(outcome.dropped), 'snapshot')} and "
        f"{words.plural(len(outcome.packs_deleted), 'pack')} {would}, "
        f"{words.size(outcome.bytes_freed)}"
    )
    if outcome.note:
        tell.out.print(f"{NOTE} {escape(outcome.note)}")


def newest_id(world: "Project", stream: str, *, at_most_epoch: int | None = None) -> str:
    """The newest snapshot, or the newest up to an epoch."""
    for record in world.vault(stream).list():
        if at_most_epoch is None or record.epoch <= at_most_epoch:
            return record.id
    limit = "" if at_most_epoch is None else f" up to epoch {at_most_epoch}"
    raise PermanentError(
        f"{stream} has no snapshot{limit}", hint=f"`holdfast snapshots list {stream}`"
    )


@contextmanager
def _bar(tell: Terminal, amount: Any, *, quiet: bool) -> Iterator[tuple[Progress, Any]]:
    columns = (TextColumn("{task.description}"), BarColumn(), amount)
    with Progress(
        *columns, console=tell.err, disable=quiet or not tell.err.is_terminal, transient=True
    ) as bar:
        yield bar, bar.add_task("")


def _steps(bar: Progress, task: Any) -> Callable[[int, int], None]:
    return lambda done, total: bar.update(task, completed=done, total=total)
