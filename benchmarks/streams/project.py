"""A project of a benchmark's own with one declared stream; nothing that it started is left afterwards."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.resources.process import find_process
from holdfast.resources.project import Project, open_project
from holdfast.resources.service import find_free_port

REPO = Path(__file__).parent.parent.parent
RUN = "benchmark"


@contextmanager
def live_project(folder: Path, declaration: Mapping[str, Any]) -> Iterator[Project]:
    """A project in which one stream is declared and not yet started."""
    streams = folder / "configs" / "streams"
    streams.mkdir(parents=True)
    shutil.copytree(REPO / "configs" / "price_lists", folder / "configs" / "prices")
    (folder / "configs" / "holdfast.yaml").write_text(f"dagster:\n  port: {find_free_port()}\n")
    (streams / f"{declaration['name']}.yaml").write_text(yaml.safe_dump(dict(declaration)))
    with open_project(folder) as project:
        try:
            yield project
        finally:
            stop_everything(project, declaration["name"])


def stop_everything(project: Project, stream: str) -> None:
    """Stop the stream and everything that came with it; stopping twice is harmless."""
    DagsterServer(project.config).stop()
    for _ in Stop(project, stream, RUN).steps():
        pass
    for row in project.store.replicas.of(stream, live=False):
        process = find_process(row)
        if process is not None:
            process.kill()
    embedded = project.embedded_s3()
    if embedded is not None:
        embedded.stop()


def describe_stream(project: Project, stream: str) -> str:
    """The status of a stream and the ends of its logs, for the message of a timeout."""
    logs = sorted(
        project.config.home.glob("replicas/*/replica.log"), key=lambda log: log.stat().st_mtime
    )
    tails = [f"{log.parent.name}:\n{log.read_text()[-3000:]}" for log in logs[-2:]]
    return "\n".join([str(observe_stream(project, stream)), *tails])
