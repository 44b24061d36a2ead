"""The table of a stream, as the control store knows it: a stream never continues in another table.

A table that was deleted, is not mounted, or is that of another host would otherwise be created again, and the output
would begin in the middle. The control store chooses the name of a new table, since several replicas may create it at once.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit
from uuid import uuid4

from deltalake import DeltaTable

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.epoch_records import OutputRow
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.retry import retry_transient

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """The place of a stream's output."""

    store: ControlStore
    stream: str
    path: str

    def claim(self, connect: Callable[[], S3Connection]) -> str:
        """The name for a new table; raise if the stream has one that is away, or if the storage cannot hold one."""
        if self.store.ledger.last(self.stream) is not None:
            raise TransientError(
                f"the table of {self.stream} is away: there is none at {self.path}",
                hint="mount its disk, or put it back: the stream waits, and continues then",
            )
        if self.path.startswith("s3://"):
            require_conditional_writes(self.path, connect)
        return self._record(f"{self.stream}-{uuid4().hex}").table_id

    def require_own(self, table: DeltaTable) -> None:
        """Record a table that none is recorded for; raise if the stream has written to another one."""
        found = self._identify(table)
        recorded = self._record(found)
        if recorded.table_id != found:
            raise PermanentError(
                f"{self.path} is not the table of {self.stream}: it is {found}, and the stream "
                f"has written to {recorded.table_id} at {recorded.path}",
                hint=f"put that table back, or fork the stream: `holdfast restore {self.stream} --as NAME`",
            )
        if recorded.path != self.path:
            log.warning(
                "the table of %s is now at %s, not %s", self.stream, self.path, recorded.path
            )
            self.store.outputs.move(self.stream, path=self.path, table_id=found)

    def adopt(self, table: DeltaTable) -> None:
        """Record a table of dead letters, also if there was another one before."""
        found = self._identify(table)
        recorded = self._record(found)
        if (recorded.table_id, recorded.path) != (found, self.path):
            self.store.outputs.move(self.stream, path=self.path, table_id=found)

    def is_own(self, table: DeltaTable) -> bool:
        """Whether it is the recorded table at the recorded path; before the stream has opened one, none is."""
        recorded = self.store.outputs.get(self.stream)
        identity = (self._identify(table), self.path)
        return recorded is not None and (recorded.table_id, recorded.path) == identity

    def _identify(self, table: DeltaTable) -> str:
        """The name that the control store chose for the table; Delta's own id of a table that was there before."""
        metadata = table.metadata()
        name = metadata.name or ""
        return name if re.fullmatch(rf"{self.stream}-[0-9a-f]{{32}}", name) else str(metadata.id)

    def _record(self, table_id: str) -> OutputRow:
        return retry_transient(
            lambda: self.store.outputs.record(self.stream, table_id=table_id, path=self.path),
            what=f"recording the table of {self.stream}",
        )


def require_conditional_writes(path: str, connect: Callable[[], S3Connection]) -> None:
    """Raise if the endpoint of a table in S3 lets two replicas write one commit; asked beside the table."""
    from holdfast.resources.object_store.s3 import S3ObjectStore

    url = urlsplit(path)
    endpoint = S3ObjectStore(lambda: replace(connect(), bucket=url.netloc, prefix=""))
    endpoint.require_conditional_writes(f"{url.path.strip('/')}.probe-{uuid4().hex[:8]}")
