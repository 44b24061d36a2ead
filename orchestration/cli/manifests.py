"""A snapshot's manifest as people read it: packs, folders, and the conf that must match."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as words


def rendered(facts: dict[str, Any], *, now: float, with_files: bool) -> Iterator[RenderableType]:
    """All that there is to say; the files one by one only if somebody asks."""
    yield f"[bold]{facts['id']}[/bold]"
    yield f"epoch {facts['epoch']:,}, by {facts['replica']}, Spark {facts['spark_version']}"
    yield f"parent: {facts['parent'] or 'none'}"
    proven_at = facts["proven_at"]
    proof = words.proof(proven_at and now - proven_at, facts["proven_seconds"])
    yield f"proven: {proof or 'never'}"
    yield ""
    yield _packs(facts["packs"])
    yield ""
    yield _folders(facts["files"])
    yield ""
    yield _conf(facts["conf"])
    if with_files:
        yield ""
        yield _files(facts["files"])


def _packs(packs: list[dict[str, Any]]) -> Table:
    table = _table("pack", "size", "live")
    for pack in packs:
        table.add_row(pack["name"], words.size(pack["bytes"]), f"{pack['live_share']:.0%}")
    return table


def _folders(files: list[dict[str, Any]]) -> Table:
    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for file in files:
        folder = str(file["path"]).partition("/")[0]
        for name in (folder, "all"):
            count[name] += 1
            size[name] += file["bytes"]
    table = _table("part", "files", "size")
    for name in sorted(count, key=lambda name: (name == "all", name)):
        table.add_row(escape(name), words.count(count[name]), words.size(size[name]))
    return table


def _conf(conf: dict[str, str]) -> Table:
    table = Table("conf that must match", "value", box=None, pad_edge=False)
    for name, value in conf.items():
        table.add_row(name, escape(value) or "[dim]not set[/dim]")
    return table


def _files(files: list[dict[str, Any]]) -> Table:
    table = _table("file", "size", "pack")
    for file in files:
        table.add_row(escape(file["path"]), words.size(file["bytes"]), file["pack"])
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name == "pack" else "right")
    return table
