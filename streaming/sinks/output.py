"""The tables of a stream, as the control store knows them: a stream never continues in another table.

A table that was deleted, is not mounted, or is that of another host would otherwise be created again, and the output
would begin in the middle. The name of a new table follows from the project, since several replicas may create it at
once; it is recorded when it is there.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit
from uuid import UUID, uuid4, uuid5

from deltalake import DeltaTable

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.epoch_records import OutputRow
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.identity import dead_letters_of
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options
from holdfast.resources.retry import retry_transient
from holdfast.streaming.sinks.delta.table import find_table

_MADE_NAME = re.compile(r"(.+)-[0-9a-f]{32}")
"""The name of a table that Holdfast has made: the stream, and an id."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """The place of a stream's output, or of its dead letters."""

    store: ControlStore
    stream: str
    path: str
    connect: Callable[[], S3Connection]
    may_be_replaced: bool = False
    """Whether a stream that declares another path begins another table there."""

    @classmethod
    def of_dead_letters(
        cls, store: ControlStore, stream: str, path: str, connect: Callable[[], S3Connection]
    ) -> "StreamOutput":
        """The place of a stream's dead letters."""
        return cls(store, dead_letters_of(stream), path, connect, may_be_replaced=True)

    def find(self) -> DeltaTable | None:
        """Open the table; raise if it is another one, or if the storage cannot hold a table."""
        require_conditional_writes(self.store, self.path, self.connect)
        table = find_table(self.path, delta_options(self.path, self.connect))
        if table is not None:
            self._require_own(table)
        return table

    def open(self, make: Callable[[str], DeltaTable]) -> DeltaTable:
        """Open the table; if the stream never had one, create it by `make`, which is given its name."""
        table = self.find()
        if table is None:
            self.require_not_away()
            table = make(self._new_name())
            self._require_own(table)
        return table

    def require_not_away(self) -> None:
        """Raise if the stream has a table, and there is none at its path."""
        recorded = self.store.outputs.get(self.stream)
        if recorded is None and self.store.ledger.last(self.stream) is None:
            return
        if self._is_declared_elsewhere(recorded):
            return
        if find_table(self.path, delta_options(self.path, self.connect)) is None:
            raise TransientError(
                f"the table of {self.stream} is away: there is none at {self.path}",
                hint="mount its disk, or put it back: the stream waits, and continues then",
            )

    def _is_declared_elsewhere(self, recorded: OutputRow | None) -> bool:
        return self.may_be_replaced and recorded is not None and recorded.path != self.path

    def _new_name(self) -> str:
        project = UUID(hex=self.store.identity.project_id())
        return f"{self.stream}-{uuid5(project, self.stream).hex}"

    def _require_own(self, table: DeltaTable) -> None:
        """Record a table that none is recorded for; raise if it or the stream's table is another one."""
        table_id = self._identify(table)
        recorded = retry_transient(
            lambda: self._record(table, table_id), what=f"recording the table of {self.stream}"
        )
        if recorded.table_id != table_id and not self._is_declared_elsewhere(recorded):
            name = self.stream.partition("/")[0]
            raise PermanentError(
                f"{self.path} is not the table of {self.stream}: it is {table_id}, and the stream "
                f"has written to {recorded.table_id} at {recorded.path}",
                hint=f"put that table back, or fork the stream: `holdfast restore {name} --as NAME`",
            )
        if recorded.path != self.path:
            log.warning(
                "the table of %s is now at %s, not %s", self.stream, self.path, recorded.path
            )
            self.store.outputs.move(self.stream, path=self.path, table_id=table_id)

    def _record(self, table: DeltaTable, table_id: str) -> OutputRow:
        """The table that is recorded for the stream: this one, if there was none."""
        outputs = self.store.outputs
        recorded = outputs.get(self.stream)
        if recorded is None or (
            recorded.table_id != table_id and self._is_declared_elsewhere(recorded)
        ):
            self._require_free(table)
        return recorded or outputs.record(self.stream, table_id=table_id, path=self.path)

    def _require_free(self, table: DeltaTable) -> None:
        """Raise if another stream has written to the table: its rows would be there twice."""
        metadata = table.metadata()
        name = metadata.name or ""
        made_for = _MADE_NAME.fullmatch(name)
        if made_for and made_for[1] == self.stream:
            return
        other = self.store.outputs.find_other(self.stream, {name, str(metadata.id)} - {""})
        owner = other.stream if other is not None else made_for and made_for[1]
        if owner:
            raise PermanentError(
                f"{self.path} is the table of {owner}, not of {self.stream}",
                hint="name another path; if the stream was renamed, give it back its name, or fork it before: "
                f"`holdfast restore {owner.partition('/')[0]} --as {self.stream.partition('/')[0]}`",
            )

    def is_own(self, table: DeltaTable) -> bool:
        """Whether it is the recorded table at the recorded path; before the stream has opened one, none is."""
        recorded = self.store.outputs.get(self.stream)
        identity = (self._identify(table), self.path)
        return recorded is not None and (recorded.table_id, recorded.path) == identity

    def _identify(self, table: DeltaTable) -> str:
        """The name that the table was created under; Delta's own id of a table that was there before."""
        metadata = table.metadata()
        name = metadata.name or ""
        is_own = re.fullmatch(rf"{re.escape(self.stream)}-[0-9a-f]{{32}}", name)
        return name if is_own else str(metadata.id)


def require_conditional_writes(
    store: ControlStore, path: str, connect: Callable[[], S3Connection]
) -> None:
    """Raise if the endpoint of a table in S3 lets two replicas write one commit; it is tried once, beside the table."""
    if not path.startswith("s3://"):
        return
    from holdfast.resources.object_store.s3 import S3ObjectStore

    url = urlsplit(path)
    bucket = replace(connect(), bucket=url.netloc, prefix="")
    if not store.identity.has_conditional_writes(bucket.place):
        endpoint = S3ObjectStore(lambda: bucket)
        endpoint.require_conditional_writes(f"{url.path.strip('/')}.probe-{uuid4().hex[:8]}")
        store.identity.record_conditional_writes(bucket.place)
