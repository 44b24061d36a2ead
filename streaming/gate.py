"""The gate: a small file from which the source process of a replica reads whether epochs may flow.

The source runs in a process of Spark's own, so a flag in memory would not reach it. While the gate
is shut the query stays up and finishes what it has, but gets no new epoch.
"""

import json
import threading
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class GateState:
    """Whether new epochs may be read, and the lease token that goes with proposals."""

    open: bool
    token: int


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one replica, in its folder."""

    folder: Path

    def set(self, state: GateState) -> None:
        """Replace the state in one step."""
        scratch = self.folder / f"gate.json.{threading.get_ident()}.tmp"
        scratch.write_text(json.dumps(asdict(state)))
        scratch.rename(self.folder / "gate.json")

    def get(self) -> GateState:
        """Read the state; a gate that was never set is shut."""
        try:
            return GateState(**json.loads((self.folder / "gate.json").read_text()))
        except FileNotFoundError:
            return GateState(open=False, token=0)
