"""Named ways to use a vault in tests."""

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.project import Project
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.records import Shipped
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.state.shipper import Shipper
from tests.builders.checkpoints import SyntheticCheckpoint
from tests.builders.control_rows import a_snapshot
from tests.builders.replicas import a_spec
from tests.builders.streams import CLICKS
from tests.fakes.clocks import SteppedClock
from tests.fakes.leases import FixedToken
from tests.fakes.object_store import InMemoryObjectStore


@dataclass
class ShippedStream:
    """A synthetic checkpoint that ships into a vault in memory, and remembers what it was."""

    folder: Path
    checkpoint: SyntheticCheckpoint
    store: InMemoryObjectStore = field(default_factory=InMemoryObjectStore)
    pack_limit_bytes: int = 1 << 30
    replica: str = "r1"
    project: str = ""
    clock: Clock = SYSTEM_CLOCK
    parent: Manifest | None = None
    contents: dict[str, dict[str, bytes]] = field(default_factory=dict)

    @property
    def vault(self) -> SnapshotVault:
        return SnapshotVault(
            self.store,
            "words",
            project_id=lambda: self.project,
            pack_limit_bytes=self.pack_limit_bytes,
            clock=self.clock,
        )

    def ship(self, epochs: int = 1, token: int = 1, *, history: int = 0) -> Shipped:
        """Commit epochs, ship the last, and keep what the restored folder must look like."""
        epoch = self.checkpoint.commit(epochs)
        shipped = self.vault.ship(
            self.checkpoint.root,
            epoch,
            token=token,
            replica=self.replica,
            parent=self.parent,
            conf={"spark.sql.shuffle.partitions": "2"},
            created_at=self.store.now,
            scratch=self.folder / "scratch",
            history=history,
        )
        self.parent = shipped.manifest
        self.contents[shipped.manifest.id] = {
            file.path: (self.checkpoint.root / file.path).read_bytes()
            for file in shipped.manifest.files
        }
        return shipped

    def pack_of(self, manifest: Manifest, path: str) -> str:
        """The key of the pack that holds a file."""
        (pack,) = {file.pack for file in manifest.files if file.path == path}
        return f"words/packs/{pack}"


def a_stream(folder: Path, **options: object) -> ShippedStream:
    """A stream whose checkpoint has no epoch yet."""
    return ShippedStream(folder, SyntheticCheckpoint(folder / "checkpoint", **options))  # type: ignore[arg-type]


def tree(folder: Path) -> dict[str, bytes]:
    """All files of a folder with their contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@dataclass
class ShipperSetup:
    """A primary whose shipper looks when a test says so."""

    store: ControlStore
    stream: ShippedStream
    shipper: Shipper
    clock: SteppedClock

    def after(self, seconds: float) -> int:
        """How many snapshots there are when so much time has passed, and another epoch."""
        self.clock.step(seconds)
        self.stream.checkpoint.commit()
        self.shipper.ship_if_due()
        return len(self.store.snapshots.of("words"))


def a_shipper(
    folder: Path, store: ControlStore, *, upload: Clock = SYSTEM_CLOCK, **checkpoint: object
) -> ShipperSetup:
    """One that has shipped nothing yet, on this checkpoint policy; `upload` times the uploads."""
    stream, clock = a_stream(folder / "primary", packed=True), SteppedClock()
    stream.clock = upload
    shipper = Shipper(
        a_spec(folder, store, checkpoint=checkpoint),
        stream.vault,
        store,
        checkpoint=stream.checkpoint.root,
        conf={},
        parent=None,
        lease=FixedToken(),
        requested=lambda: 0,
        on_served=lambda _: None,
        clock=clock,
    )
    return ShipperSetup(store, stream, shipper, clock)


def a_shipped_snapshot(project: Project, checkpoint: Path, epoch: int = 0) -> str:
    """A real snapshot of a tiny checkpoint, in the vault and in the catalogue."""
    offsets = (f"offsets/{number}" for number in range(epoch + 1))
    for name in ("metadata", *offsets, f"commits/{epoch}"):
        file = checkpoint / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}\n")
    shipped = project.vault(CLICKS).ship(
        checkpoint,
        epoch,
        token=1,
        replica="r1",
        parent=None,
        conf={},
        created_at=project.store.now(),
        scratch=checkpoint.parent / "scratch",
    )
    project.store.snapshots.record(a_snapshot(shipped.manifest.id, epoch, stream=CLICKS))
    return shipped.manifest.id
