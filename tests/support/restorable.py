"""A stream with a past that it can be taken back in: epochs, ledger, snapshots and a real output table."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable

from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.project import Project
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.sinks.lineage import writer
from tests.fakes.checkpoints import SyntheticCheckpoint
from tests.fakes.worlds import CLICKS, committed
from tests.support.cli_world import a_world
from tests.support.delta_tables import a_commit, a_table, words

EPOCHS = 8
SHIPPED = (1, 4, 6)


def a_past(world: Project, *, name: str = CLICKS) -> None:
    """Epochs 0 to 7, a row each, and snapshots after three of them; nobody wants it to run."""
    declare(world.config, world.store, name)
    committed(world, EPOCHS, name=name, rows=1)
    path = world.config.table_path(name)
    a_table(path)
    for epoch in range(EPOCHS):
        a_commit(path, epoch, words(1, first=epoch), stream=name)
    ship(world.vault(name), world.config.home / "checkpoints" / name)


@contextmanager
def a_restorable_world(root: Path) -> Iterator[Project]:
    """A project of its own with such a stream, on a real S3 endpoint."""
    with a_world(root) as world:
        world.ensure_object_store()
        a_past(world)
        yield world
        embedded = world.embedded_s3()
        assert embedded is not None
        embedded.stop()


def ship(vault: SnapshotVault, folder: Path) -> None:
    """Snapshots after the epochs that are shipped."""
    checkpoint = SyntheticCheckpoint(folder)
    parent = None
    for epoch in SHIPPED:
        checkpoint.commit(epoch - checkpoint.epoch)
        parent = vault.ship(
            checkpoint.root,
            epoch,
            token=1,
            replica="r1",
            parent=parent,
            conf={},
            created_at=0.0,
            scratch=folder / "scratch",
        ).manifest


def output(world: Project, name: str = CLICKS) -> list[int]:
    """The rows of its table: each is the number of its epoch."""
    return sorted(DeltaTable(world.config.table_path(name)).to_pandas()["count"])


def entries(world: Project, name: str = CLICKS) -> list[int]:
    return [entry.epoch for entry in world.store.ledger.between(name, 0, 99)]


def snapshots(world: Project, name: str = CLICKS) -> list[int]:
    return [record.epoch for record in world.vault(name).list()]


def open_for(world: Project, history: int, name: str = CLICKS) -> int | None:
    """The newest epoch that a history has in the table, if it may write to it."""
    table = DeltaTable(world.config.table_path(name))
    return table.transaction_version(writer(name, history))
