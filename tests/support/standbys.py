"""What a secondary needs to follow a stream, without Spark."""

from collections.abc import Callable
from pathlib import Path

from holdfast.configs.deployment import EmbeddedObjectStore
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.spec import ReplicaSpec
from tests.fakes.declared import a_declaration


def a_spec(home: Path, store: ControlStore, **declared: object) -> ReplicaSpec:
    """The replica `words-2` of the stream `words`, in a folder of its own."""
    folder = home / "replicas" / "words-2"
    folder.mkdir(parents=True)
    return ReplicaSpec(
        replica="words-2",
        stream=a_declaration(name="words", **declared),
        control_url=store.url,
        home=home,
        folder=folder,
        table="",
        object_store=EmbeddedObjectStore(),
    )


def until(holds: Callable[[], bool], *, within_seconds: float = 5.0) -> None:
    """Wait until something holds; fail if it does not in time."""
    deadline = SYSTEM_CLOCK.monotonic() + within_seconds
    while not holds():
        assert SYSTEM_CLOCK.monotonic() < deadline, "it did not happen in time"
        SYSTEM_CLOCK.sleep(0.005)
