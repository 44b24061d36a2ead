"""A primary's shipper, its checkpoint synthetic and its object store in memory."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.state.shipper import Shipper
from tests.fakes.clocks import SteppedClock
from tests.fakes.leases import FixedToken
from tests.support.standbys import a_spec
from tests.support.vaults import ShippedStream, a_stream


@dataclass
class Shipping:
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


def a_shipping(folder: Path, store: ControlStore, **checkpoint: object) -> Shipping:
    """One that has shipped nothing yet, on this checkpoint policy."""
    stream, clock = a_stream(folder / "primary", packed=True), SteppedClock()
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
    return Shipping(store, stream, shipper, clock)
