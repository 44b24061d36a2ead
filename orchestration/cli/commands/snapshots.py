"""`holdfast snapshots …`: list, show, verify, prove, restore and prune snapshots."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.playbook import PlaybookCommand
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

app = typer.Typer(
    no_args_is_help=True, help="List, show, verify, prove, restore and prune snapshots."
)

Snapshot: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="ID", show_default=False, help="The snapshot's id. Default: the newest."
    ),
]


@app.command("list", epilog="Example:  holdfast snapshots list word_count")
def list_snapshots(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """List the snapshots in the object store, newest first."""
    from holdfast.orchestration.cli.views.snapshots import list_snapshots as read_snapshots

    term = terminal(ctx)
    with term.open_storage(stream) as project:
        snapshots = read_snapshots(project, stream)
        now = project.store.now()
    if as_json:
        term.json({"stream": stream, "snapshots": snapshots})
        return
    if not snapshots:
        term.out.print(f"{stream} has no snapshot")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("snapshot", "age", "epoch", "files", "size", "new", "took", "proven", "state"):
        table.add_column(name, justify="left" if name in ("snapshot", "state") else "right")
    for row in snapshots:
        table.add_row(
            row.id,
            fmt.age(now - row.created_at),
            fmt.count(row.epoch),
            fmt.count(row.files),
            fmt.size(row.total_bytes),
            fmt.size(row.new_bytes),
            fmt.seconds(row.seconds),
            fmt.proof(row.proven_at and now - row.proven_at, row.proven_seconds),
            escape(row.state + (f": {row.reason}" if row.reason else "")),
        )
    term.out.print(table)


@app.command(epilog="Example:  holdfast snapshots show word_count  (the newest)")
def show(
    ctx: typer.Context,
    *,
    stream: Stream,
    snapshot: Snapshot = None,
    files: Annotated[bool, typer.Option("--files", help="List every file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a manifest: packs with their live share, files, and the Spark conf that must match."""
    from holdfast.orchestration.cli.views.snapshots import describe_snapshot, manifest_view

    term = terminal(ctx)
    with term.open_storage(stream) as project:
        facts = describe_snapshot(project, stream, snapshot or newest_id(project, stream))
        now = project.store.now()
    if as_json:
        term.json(facts)
        return
    term.out.print(*manifest_view(facts, now=now, with_files=files), sep="\n")


@app.command(epilog="Examples:  holdfast snapshots verify word_count  ·  … verify word_count --all")
def verify(
    ctx: typer.Context,
    *,
    stream: Stream,
    snapshot: Snapshot = None,
    every: Annotated[bool, typer.Option("--all", help="Verify all snapshots.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Read a snapshot in full and check every digest; exit code 1 if it is damaged."""
    from holdfast.resources.vault.catalogue import verify as verify_snapshot

    term = terminal(ctx)
    with term.open_storage(stream) as project:
        if every:
            ids = [record.id for record in project.vault(stream).list()]
        else:
            ids = [snapshot or newest_id(project, stream)]
        problems: dict[str, list[str]] = {}
        with _bar(term, MofNCompleteColumn(), quiet=as_json) as (bar, task):
            bar.update(task, description=f"verifying {stream}", total=len(ids))
            for snapshot_id in ids:
                problems[snapshot_id] = verify_snapshot(project, stream, snapshot_id)
                bar.advance(task)
    if as_json:
        term.json(
            {"stream": stream, "snapshots": [{"id": i, "problems": p} for i, p in problems.items()]}
        )
    else:
        for snapshot_id, damages in problems.items():
            mark, verdict = (FAILED, "damaged") if damages else (DONE, "intact")
            term.out.print(f"{mark} {snapshot_id}  {verdict}")
            for damage in damages:
                term.out.print(f"  [red]{escape(damage)}[/red]")
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
    """Prove that a snapshot restores: recompute one epoch from it, and compare with the committed digest.

    Spark runs in a scratch folder and sends nothing; the stream is not touched.
    """
    from holdfast.orchestration.playbooks.prove import Prove

    def build(project: "Project", stream: str, run: str) -> Prove:
        return Prove(project, stream, run, snapshot=snapshot)

    def command(project: "Project") -> PlaybookCommand:
        return PlaybookCommand(
            term=term,
            project=project,
            build=build,
            nothing_to_do="is already proven",
            as_json=as_json,
        )

    term = terminal(ctx)
    if dry_run:  # the catalogue has all that a plan needs: no object store is started for it
        with term.open_project() as project:
            command(project).plan(stream)
        return
    with term.open_storage(stream) as project:
        command(project).run(stream)


@app.command(epilog="Example:  holdfast snapshots restore word_count --epoch 120 --into /tmp/look")
def restore(
    ctx: typer.Context,
    *,
    stream: Stream,
    snapshot: Snapshot = None,
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder.")],
    epoch: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The newest snapshot up to this epoch.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a checkpoint into a new folder, with every digest verified."""
    if snapshot is not None and epoch is not None:
        raise typer.BadParameter("give either a snapshot's ID or --epoch")
    term = terminal(ctx)
    with term.open_storage(stream) as project:
        vault = project.vault(stream)
        manifest = vault.manifest(snapshot or newest_id(project, stream, at_most_epoch=epoch))
        with _bar(term, DownloadColumn(), quiet=as_json) as (bar, task):
            bar.update(task, description=f"restoring {manifest.id}", total=manifest.state_bytes)
            restored = vault.restore(manifest, into, progress=_steps(bar, task))
    if as_json:
        term.json(
            {"id": manifest.id, "epoch": manifest.epoch, "folder": str(into), "restored": restored}
        )
        return
    term.out.print(
        f"{DONE} {manifest.id} restored into {escape(str(into))}: {fmt.plural(restored.files, 'file')}, "
        f"{fmt.size(restored.bytes)}, {fmt.plural(restored.requests, 'request')}, "
        f"{fmt.seconds(restored.seconds)}"
    )


@app.command(epilog="Example:  holdfast snapshots prune word_count --dry-run")
def prune(
    ctx: typer.Context,
    *,
    stream: Stream,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be dropped.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Drop the snapshots that the stream's retention does not keep, with the reason for each."""
    from holdfast.resources.vault.catalogue import prune as prune_snapshots

    term = terminal(ctx)
    with term.open_storage(stream) as project:
        outcome = prune_snapshots(project, stream, dry_run=dry_run)
    if as_json:
        term.json({"stream": stream, "dry_run": dry_run, "pruned": outcome})
        return
    table = Table("snapshot", "verdict", "reason", box=None, pad_edge=False)
    for verdict in outcome.verdicts:
        word = "[green]keep[/green]" if verdict.keep else "[red]drop[/red]"
        table.add_row(verdict.snapshot.id, word, escape("; ".join(verdict.reasons)))
    term.out.print(table)
    would = "would be dropped" if dry_run else "dropped"
    term.out.print(
        f"{DONE} {fmt.plural(len(outcome.dropped), 'snapshot')} and "
        f"{fmt.plural(len(outcome.packs_deleted), 'pack')} {would}, "
        f"{fmt.size(outcome.bytes_freed)}"
    )
    if outcome.note:
        term.out.print(f"{NOTE} {escape(outcome.note)}")


def newest_id(project: "Project", stream: str, *, at_most_epoch: int | None = None) -> str:
    """The id of the newest snapshot, or of the newest up to an epoch; fails if there is none."""
    for record in project.vault(stream).list():
        if at_most_epoch is None or record.epoch <= at_most_epoch:
            return record.id
    limit = "" if at_most_epoch is None else f" up to epoch {at_most_epoch}"
    raise PermanentError(
        f"{stream} has no snapshot{limit}", hint=f"run `holdfast snapshots list {stream}`"
    )


@contextmanager
def _bar(term: Terminal, amount: Any, *, quiet: bool) -> Iterator[tuple[Progress, Any]]:
    columns = (TextColumn("{task.description}"), BarColumn(), amount)
    with Progress(
        *columns, console=term.err, disable=quiet or not term.err.is_terminal, transient=True
    ) as bar:
        yield bar, bar.add_task("")


def _steps(bar: Progress, task: Any) -> Callable[[int, int], None]:
    return lambda done, total: bar.update(task, completed=done, total=total)
