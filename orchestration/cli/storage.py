"""The object store while a command needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.orchestration.cli.terminal import Terminal

if TYPE_CHECKING:
    from holdfast.resources.project import Project


@contextmanager
def storage(tell: Terminal, stream: str) -> "Iterator[Project]":
    """The world with its object store reachable, if need be only while the command runs."""
    from holdfast.resources.control_store.records import DesiredState

    with tell.world() as world:
        world.config.stream(stream)
        embedded = world.embedded_s3()
        if embedded is None or embedded.alive():
            yield world
            return
        embedded.ensure()
        try:
            yield world
        finally:
            if not any(row.desired is DesiredState.RUNNING for row in world.store.streams.all()):
                embedded.stop()
