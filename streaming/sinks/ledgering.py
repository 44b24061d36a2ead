"""Writing an epoch's output into the ledger, and raising an alarm if two replicas disagree."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from resources.control.records import LedgerEntry
from resources.control.store import ControlStore
from resources.patience import patiently

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ledgering:
    """The ledger as one replica of a stream sees it."""

    store: ControlStore
    stream: str
    replica: str
    token: Callable[[], int]

    def entry(self, epoch: int) -> LedgerEntry | None:
        """What was committed for an epoch, by whomever."""
        return patiently(
            lambda: self.store.ledger.get(self.stream, epoch),
            what=f"looking epoch {epoch} up in the ledger",
        )

    def write(self, epoch: int, *, rows: int, digest: str) -> None:
        """Record what this replica computed; waits for as long as the control store is away."""
        committed = patiently(
            lambda: self.store.ledger.commit(
                LedgerEntry(
                    stream=self.stream,
                    epoch=epoch,
                    replica=self.replica,
                    token=self.token(),
                    rows=rows,
                    digest=digest,
                )
            ),
            what=f"writing epoch {epoch} into the ledger",
        )
        if committed.agrees:
            return
        first = committed.entry
        log.error("epoch %s: digest %s here, %s by %s", epoch, digest, first.digest, first.replica)
        patiently(
            lambda: self.store.incidents.open(
                stream=self.stream,
                key=f"{self.stream}/epoch-{epoch}/{self.replica}/digest",
                kind="digest_differs",
                detail={
                    "epoch": epoch,
                    "first": {"replica": first.replica, "rows": first.rows, "digest": first.digest},
                    "second": {"replica": self.replica, "rows": rows, "digest": digest},
                    "hint": "the job is not deterministic, or a machine is broken",
                },
            ),
            what=f"raising an incident for epoch {epoch}",
        )
