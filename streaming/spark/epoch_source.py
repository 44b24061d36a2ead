"""The Spark data source that makes Spark batch k read exactly epoch k, in every replica.

The epoch log decides. A replica that finds the next epoch not in it yet, while the pace allows one,
proposes it; the log keeps the first proposal, and every replica reads that one.

Spark imports this module in several Python processes while a query starts, one after the other. Only
one of them talks to the control store, so only that one imports it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from holdfast.ft_policies.epochs import Close, since_last_epoch, skip_before
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.tiers import Guarantee
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.epoch_records import LostCommitError, digest_input
from holdfast.resources.control_store.records import Epoch, EpochProposal, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.retry import retry_transient
from holdfast.streaming.gate import Gate
from holdfast.streaming.inbox import Inbox
from holdfast.streaming.sources.assigned import check_assigned
from holdfast.streaming.sources.base import Source, Split, Taken
from holdfast.streaming.sources.factory import columns, open_source
from holdfast.streaming.sources.folder import ListedFile
from holdfast.streaming.sources.lag import measure_lag, recent_inputs
from holdfast.streaming.spec import ReplicaSpec

if TYPE_CHECKING:
    from holdfast.resources.control_store.store import ControlStore

FORMAT = "holdfast_epochs"
REHEARSAL = "rehearsal"
EMPTY_AFTER = "empty_after"
REHEARSED_EPOCHS = 3
BEFORE_ALL = -1
SAMPLE_SECONDS = 5.0
PAUSE_FACTOR = 10.0  # how many times longer than a measurement of the lag is the pause after it

log = logging.getLogger(__name__)


class EpochSource(DataSource):
    """`spark.readStream.format("holdfast_epochs").option("folder", …)`: a stream's epochs."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """The columns of the declared source."""
        return columns(self._spec.stream.source)

    def streamReader(self, schema: StructType) -> "EpochReader":  # noqa: N802
        """The reader that Spark asks for epochs."""
        if EMPTY_AFTER in self.options:
            return EmptyReader(self._spec, schema, after_epoch=int(self.options[EMPTY_AFTER]))
        rehearsal = self.options.get(REHEARSAL) == "true"
        return (RehearsalReader if rehearsal else EpochReader)(self._spec, schema)

    @property
    def _spec(self) -> ReplicaSpec:
        return ReplicaSpec.load(Path(self.options["folder"]))


class EpochSplit(InputPartition):
    """A split on its way to a Spark task, and its place in its epoch."""

    def __init__(self, epoch: int, index: int, split: Split, *, digest: str) -> None:
        super().__init__(split)
        self.epoch = epoch
        self.digest = digest
        self.index = index
        self.split = split


class EpochReader(DataSourceStreamReader):
    """Offsets are epoch numbers: `{"epoch": k}` means that epoch k is the last one read.

    `input` is the digest of what was decided for it. Spark keeps it in the checkpoint, so a control store that has
    lost the decision, and has another one by now, is noticed: before the epoch is read, and before the next one is.
    """

    def __init__(
        self, spec: ReplicaSpec, schema: StructType, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._spec = spec
        self._schema = schema
        self._clock = clock
        self._last: Epoch | None = None
        self._last_seen_at = 0.0
        self._waiting_sampled_at = -inf
        self._lag_due_at = self._clock.monotonic() + SAMPLE_SECONDS

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"epoch": BEFORE_ALL}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Advance by one epoch, if the gate is open and the next epoch is or can be decided."""
        try:
            epoch = self._next(start)
        except TransientError as error:
            self._sample_waiting(start["epoch"] + 1, error)
            return start
        return start if epoch is None else {"epoch": epoch.epoch, "input": digest_input(epoch)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Look up what the epochs after `start` up to `end` consist of; both must be decided as they were."""
        before, last = start["epoch"], end["epoch"]
        decided = retry_transient(
            lambda: self._store.epochs.between(self._spec.stream.name, before, last),
            what=f"reading epoch {last} from the epoch log",
        )
        digests = {epoch.epoch: digest_input(epoch) for epoch in decided}
        epochs = [epoch for epoch in decided if epoch.epoch > before]
        if len(epochs) != last - before:
            self._refuse_missing(last)
        for offset in (start, end):
            self._require_as_planned(offset, digests.get(offset["epoch"]))
        try:
            return [
                EpochSplit(epoch.epoch, index, split, digest=digests[epoch.epoch])
                for epoch in epochs
                for index, split in enumerate(self._source.splits(epoch.input))
            ]
        except TransientError as error:
            self._sample_waiting(last, error)
            raise

    def _require_as_planned(self, offset: dict[str, Any], digest: str | None) -> None:
        """Raise if the epoch of an offset is decided otherwise by now; the epoch before the first may be pruned."""
        planned = offset.get("input")
        if None not in (planned, digest) and planned != digest:
            epoch = offset["epoch"]
            reason = f"epoch {epoch} was planned with other input than the epoch log has now"
            self._refuse(epoch, reason)

    def _refuse_missing(self, epoch: int) -> NoReturn:
        error = self._store.epochs.missing(self._spec.stream.name, epoch)
        if isinstance(error, LostCommitError):
            self._refuse(epoch, f"epoch {epoch} was planned, and the epoch log has lost it")
        raise error

    def _refuse(self, epoch: int, reason: str) -> NoReturn:
        """Open an incident, and raise; most of Spark's processes do not import what it takes."""
        from holdfast.streaming.sinks.ledger_writer import refuse_epoch

        refuse_epoch(
            self._store,
            epoch,
            stream=self._spec.stream.name,
            replica=self._spec.replica,
            history=self._spec.history,
            reason=reason,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in a Spark task; from the inbox if it was prefetched."""
        assert isinstance(partition, EpochSplit)  # noqa: S101 - Spark hands back what it was given
        inbox = Inbox(self._spec.folder)
        prefetched = inbox.read(partition.epoch, partition.index, digest=partition.digest)
        return self._source.read(partition.split) if prefetched is None else prefetched

    def stop(self) -> None:
        """Close the control store."""
        if "_store" in self.__dict__:
            self._store.close()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for a task, without connections."""
        state = {
            "_last": None,
            "_last_seen_at": 0.0,
            "_waiting_sampled_at": -inf,
            "_lag_due_at": inf,
        }
        return {"_spec": self._spec, "_schema": self._schema, **state}

    @cached_property
    def _store(self) -> "ControlStore":
        from holdfast.resources.control_store.store import ControlStore

        return ControlStore.open(self._spec.control_url, in_replica=True)

    @cached_property
    def _gate(self) -> Gate:
        return Gate(self._spec.folder)

    @cached_property
    def _source(self) -> Source:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        return open_source(self._spec, schema, self._assigned_names)

    def _assigned_names(self, files: Sequence[ListedFile]) -> set[str]:
        # opens the control store, which only a proposer needs
        return check_assigned(self._store, self._spec.stream.name, self._spec.replica, files)

    def _next(self, start: dict[str, Any]) -> Epoch | None:
        gate, number = self._gate.get(), start["epoch"] + 1
        if not gate.open:
            return None
        decided = self._store.epochs.get(self._spec.stream.name, number)
        if decided is None:
            decided = self._propose(start, gate.token)
            self._sample_lag(number)
        else:
            self._sample_replay(decided)
        if decided is not None:
            self._see(decided)
        return decided

    def _propose(self, start: dict[str, Any], token: int) -> Epoch | None:
        name, now, number = self._spec.stream.name, self._store.now(), start["epoch"] + 1
        last = self._before(start)
        position = None if last is None else last.end
        taken = self._skip(last, token, now=now) or self._take(last, now=now)
        if taken is None:
            return None
        proposal = EpochProposal(
            stream=name,
            epoch=number,
            start=dict(position or {}),
            end=dict(taken.end),
            input=dict(taken.input),
            rows=taken.rows,
            token=token,
            proposer=self._spec.replica,
        )
        try:
            return self._store.epochs.propose(proposal, after=last)
        except LostCommitError as error:
            self._refuse(number - 1, str(error))

    def _take(self, last: Epoch | None, *, now: float) -> Taken | None:
        position = None if last is None else last.end
        pace = self._spec.stream.epoch.pace()
        decision = pace.decide(
            waiting_rows=self._source.waiting_rows(position, now=now, enough=pace.rows),
            since_last_seconds=self._since(last, now=now),
        )
        if not isinstance(decision, Close):
            return None
        return self._source.take(position, decision.rows, now=now)

    def _skip(self, last: Epoch | None, token: int, *, now: float) -> Taken | None:
        """The input that a stream with the guarantee `gap` leaves out after an outage.

        In an active tier each replica proposes under the primary's token, so only a newer token is a takeover.
        """
        objective, pace = self._spec.stream.objective, self._spec.stream.epoch.pace()
        if last is None or objective.guarantee is not Guarantee.GAP:
            return None
        before = skip_before(
            now=now,
            since_last_seconds=self._since(last, now=now),
            takes_over=token > last.token,
            recovery_seconds=objective.recovery_time,
            epoch_seconds=pace.epoch_seconds,
        )
        if before is None:
            return None
        inputs = recent_inputs(self._store, last)
        return self._source.skip(last.end, inputs, before=before, now=now)

    def _sample_lag(self, epoch: int) -> None:
        """Record every few seconds how far the stream is behind its input, if that can be read.

        The proposal has just listed the source. The next epoch waits for the measurement, so a slow one is rare.
        """
        began = self._clock.monotonic()
        if began < self._lag_due_at:
            return
        with suppress(TransientError):
            at = self._store.now()
            lag = measure_lag(self._store, self._spec.stream.name, self._source, at=at)
            values = {SampleName.LAG_SECONDS: lag.seconds, SampleName.LAG_ROWS: lag.rows}
            self._write_samples(values, epoch, at=at)
        ended = self._clock.monotonic()
        self._lag_due_at = ended + max(SAMPLE_SECONDS, PAUSE_FACTOR * (ended - began))

    def _sample_replay(self, epoch: Epoch) -> None:
        """Record every few seconds how old the input of a decided epoch is; the source is not listed."""
        if self._clock.monotonic() < self._lag_due_at:
            return
        arrived_at = self._source.arrived_at(epoch.input, epoch.end)
        if arrived_at is None:
            return
        with suppress(TransientError):
            at = self._store.now()
            values = {SampleName.LAG_SECONDS: max(at - arrived_at, 0.0)}
            self._write_samples(values, epoch.epoch, at=at)
        self._lag_due_at = self._clock.monotonic() + SAMPLE_SECONDS

    def _sample_waiting(self, epoch: int, error: TransientError) -> None:
        """Record every few seconds that the epoch waits for its input, if the control store can be reached.

        Spark asks 40 times a second: a line in the log for each would be 500 MB a day.
        """
        now = self._clock.monotonic()
        if now - self._waiting_sampled_at >= SAMPLE_SECONDS:
            self._waiting_sampled_at = now
            log.warning("waiting for epoch %s: %s", epoch, error)
            with suppress(TransientError):
                self._write_samples({SampleName.INPUT_AWAY: 1.0}, epoch)

    def _write_samples(
        self, values: Mapping[SampleName, float | None], epoch: int, *, at: float = 0.0
    ) -> None:
        stream, replica = self._spec.stream.name, self._spec.replica
        self._store.samples.write(
            [
                Sample(stream=stream, replica=replica, name=name, value=value, epoch=epoch, at=at)
                for name, value in values.items()
                if value is not None
            ]
        )

    def _before(self, start: dict[str, Any]) -> Epoch | None:
        """The decision that the next epoch continues from; raise if the epoch log has lost it, or has another one."""
        number = start["epoch"]
        if number != BEFORE_ALL and (self._last is None or self._last.epoch != number):
            last = self._store.epochs.get(self._spec.stream.name, number)
            if last is None:
                self._refuse_missing(number)
            self._require_as_planned(start, digest_input(last))
            self._see(last)
        return self._last

    def _see(self, last: Epoch | None) -> None:
        self._last, self._last_seen_at = last, self._clock.monotonic()

    def _since(self, last: Epoch | None, *, now: float) -> float | None:
        """The seconds since the last epoch; see `since_last_epoch`."""
        seen_seconds = self._clock.monotonic() - self._last_seen_at
        return (
            None
            if last is None
            else since_last_epoch(age_seconds=now - last.decided_at, seen_seconds=seen_seconds)
        )


class RehearsalReader(EpochReader):
    """The newest epochs that are decided already, for a query that only warms up."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The offset a few epochs before the last."""
        return {"epoch": max(self._last_decided() - REHEARSED_EPOCHS, BEFORE_ALL)}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Advance by one epoch, up to the last that is decided."""
        return {"epoch": min(start["epoch"] + 1, self._last_decided())}

    def _last_decided(self) -> int:
        last = self._store.epochs.last(self._spec.stream.name)
        return BEFORE_ALL if last is None else last.epoch


class EmptyReader(EpochReader):
    """One epoch without rows, with the offset of an epoch that was decided: a query on it has empty state after that."""

    def __init__(self, spec: ReplicaSpec, schema: StructType, *, after_epoch: int) -> None:
        super().__init__(spec, schema)
        self._after_epoch = after_epoch

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"epoch": self._after_epoch - 1}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        epoch = self._store.epochs.get(self._spec.stream.name, self._after_epoch)
        if epoch is None:
            raise PermanentError(
                f"{self._spec.stream.name} cannot continue after epoch {self._after_epoch}: it is not in the epoch log",
                hint="check control_store.url: the gap belongs to another control store",
            )
        return {"epoch": epoch.epoch, "input": digest_input(epoch)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return []
