"""A project of a benchmark's own with one declared stream; nothing that it started is left afterwards."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from orchestration.playbooks.lifecycle import Stop
from orchestration.services.dagster_server import DagsterServer
from resources.ports import free_port
from streaming.observing import observe
from streaming.processes import process_of
from streaming.world import World, open_world

REPO = Path(__file__).parent.parent
RUN = "benchmark"


@contextmanager
def live_project(folder: Path, declaration: Mapping[str, Any]) -> Iterator[World]:
    """A world in which one stream is declared and not yet started."""
    streams = folder / "configs" / "streams"
    streams.mkdir(parents=True)
    shutil.copytree(REPO / "configs" / "prices", folder / "configs" / "prices")
    (folder / "configs" / "holdfast.yaml").write_text(f"dagster:\n  port: {free_port()}\n")
    (streams / f"{declaration['name']}.yaml").write_text(yaml.safe_dump(dict(declaration)))
    with open_world(folder) as world:
        try:
            yield world
        finally:
            end(world, declaration["name"])


def end(world: World, stream: str) -> None:
    """Stop the stream and everything that came with it; stopping twice is harmless."""
    DagsterServer(world.project).stop()
    for _ in Stop(world, stream, RUN).steps():
        pass
    for row in world.store.replicas.of(stream, live=False):
        process = process_of(row)
        if process is not None:
            process.kill()
    embedded = world.embedded_s3()
    if embedded is not None:
        embedded.stop()


def story(world: World, stream: str) -> str:
    """What a person needs to see when a benchmark waits in vain."""
    logs = sorted(
        world.project.home.glob("replicas/*/replica.log"), key=lambda log: log.stat().st_mtime
    )
    tails = [f"{log.parent.name}:\n{log.read_text()[-3000:]}" for log in logs[-2:]]
    return "\n".join([str(observe(world, stream)), *tails])
