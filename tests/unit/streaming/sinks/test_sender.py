"""The send switch: in order, each epoch once, whatever happens in between."""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.ft_policies.errors import TransientError
from holdfast.streaming.sinks.sender import Sender
from tests.fakes.sinks import (
    Crash,
    Fate,
    SimulatedEntries,
    SimulatedFrame,
    SimulatedLedger,
    SimulatedSink,
    SimulatedTable,
    a_frame,
    fates,
    no_faults,
)

FRAMES = [SimulatedFrame(epoch) for epoch in range(5)]


@dataclass
class Pair:
    """The storage that two replicas share."""

    table: SimulatedTable = field(default_factory=SimulatedTable)
    ledger: SimulatedLedger = field(default_factory=SimulatedLedger)

    def replica(
        self,
        name: str,
        *,
        sending: bool,
        commits: Callable[[], Fate] = no_faults,
        writes: Callable[[], Fate] = no_faults,
    ) -> Sender:
        entries = SimulatedEntries(self.ledger, name, writes)
        return Sender(SimulatedSink(self.table, entries, commits), entries, sending=sending)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_an_open_sender_commits_each_epoch_and_enters_it(pair: Pair) -> None:
    sender = pair.replica("one", sending=True)
    for frame in FRAMES:
        sender(frame, frame.epoch)
    assert pair.table.epochs == [0, 1, 2, 3, 4] == list(pair.ledger.entries)
    assert (sender.is_open, sender.held_back) == (True, ())


def test_a_shut_sender_keeps_and_commits_in_order_when_opened(pair: Pair) -> None:
    sender = pair.replica("one", sending=False)
    for frame in FRAMES[:3]:
        sender(frame, frame.epoch)
    assert (sender.held_back, pair.table.commits, pair.ledger.entries) == ((0, 1, 2), [], {})
    sender.open()
    sender(FRAMES[3], 3)
    assert (sender.is_open, sender.held_back) == (True, ())
    assert pair.table.epochs == [0, 1, 2, 3] == list(pair.ledger.entries)


def test_a_sender_that_is_shut_again_keeps_again(pair: Pair) -> None:
    sender = pair.replica("one", sending=True)
    sender(FRAMES[0], 0)
    sender.shut()
    sender(FRAMES[1], 1)
    assert (sender.is_open, sender.held_back, pair.table.epochs) == (False, (1,), [0])


def test_kept_epochs_that_another_committed_are_compared_and_discarded(pair: Pair) -> None:
    primary, standby = pair.replica("one", sending=True), pair.replica("two", sending=False)
    for frame in FRAMES[:3]:
        standby(frame, frame.epoch)
    for frame in FRAMES[:2]:
        primary(frame, frame.epoch)
    standby.prune()
    assert standby.held_back == (2,)
    assert pair.ledger.copies[1, "two"] == "d1"
    committed = {folder for _, _, folder in pair.table.commits}
    assert len(pair.table.folders - committed) == 1


def test_a_standby_that_computed_otherwise_is_on_record(pair: Pair) -> None:
    primary, standby = pair.replica("one", sending=True), pair.replica("two", sending=False)
    standby(SimulatedFrame(0, salt="odd"), 0)
    primary(FRAMES[0], 0)
    standby.prune()
    assert pair.ledger.differing == {0}


def test_opening_skips_what_another_has_committed_meanwhile(pair: Pair) -> None:
    primary, standby = pair.replica("one", sending=True), pair.replica("two", sending=False)
    for frame in FRAMES[:3]:
        standby(frame, frame.epoch)
    primary(FRAMES[0], 0)
    standby.open()
    assert [(e, r) for e, r, _ in pair.table.commits] == [(0, "one"), (1, "two"), (2, "two")]
    assert pair.ledger.copies[0, "two"] == "d0"
    assert len(pair.table.folders) == 3


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.ERROR_AFTERWARDS])
@pytest.mark.parametrize("where", ["commits", "writes"])
def test_an_error_while_opening_leaves_it_shut_and_the_rest_kept(
    pair: Pair, fate: Fate, where: str
) -> None:
    faults = {where: fates([Fate.WELL, fate])}
    sender = pair.replica("one", sending=False, **faults)
    for frame in FRAMES[:3]:
        sender(frame, frame.epoch)
    with pytest.raises(TransientError):
        sender.open()
    assert (sender.is_open, sender.held_back) == (False, (1, 2))
    sender.open()
    assert pair.table.epochs == [0, 1, 2] == list(pair.ledger.entries)
    assert pair.table.folders == {folder for _, _, folder in pair.table.commits}


def test_what_was_not_committed_is_not_in_the_ledger(pair: Pair) -> None:
    sender = pair.replica("one", sending=True, commits=fates([Fate.REFUSED]))
    with pytest.raises(TransientError):
        sender(FRAMES[0], 0)
    assert pair.ledger.entries == {}
    sender(FRAMES[0], 0)
    assert pair.table.epochs == [0] == list(pair.ledger.entries)


def test_a_batch_that_spark_repeats_runs_its_plan_and_keeps_the_first_output(pair: Pair) -> None:
    sender = pair.replica("one", sending=False)
    sender(FRAMES[0], 0)
    sender(FRAMES[0], 0)
    assert (sender.held_back, len(pair.table.folders)) == ((0,), 1)


ACTIONS = ("batch", "batch", "batch", "repeat", "open", "shut", "prune")


@dataclass
class Driver:
    """One replica in the hands of the test: what Spark, the main loop and the launcher do."""

    pair: Pair
    name: str
    fate: Callable[[], Fate]
    lives: int = 0

    def __post_init__(self) -> None:
        self.live()

    @property
    def epoch(self) -> int:
        return self.life[1]

    def live(self) -> None:
        """A new incarnation starts from what an old one shipped: nothing that is not in the ledger."""
        self.lives += 1
        sender = self.pair.replica(
            f"{self.name}{self.lives}", sending=False, commits=self.fate, writes=self.fate
        )
        self.life = (sender, len(self.pair.ledger.entries) // 2)

    def act(self, action: str) -> None:
        try:
            self._act(action)
        except TransientError:
            pass
        except Crash:
            self.live()

    def _act(self, action: str) -> None:
        sender, epoch = self.life
        if action in ("batch", "repeat"):
            number = max(0, epoch - 1) if action == "repeat" else epoch
            sender(a_frame(number), number)
            if self.life == (sender, epoch):  # it has not died meanwhile, in another thread
                self.life = (sender, number + 1)
        else:
            getattr(sender, action)()


def finished(pair: Pair, drivers: list[Driver], through: int) -> None:
    """Let one replica send all there is, and look at what came of it."""
    drivers[0].act("open")
    while drivers[0].epoch <= through:
        drivers[0].act("batch")
    expected = [epoch for epoch in range(drivers[0].epoch) if epoch % 3]
    assert [epoch for epoch in pair.table.epochs if epoch < drivers[0].epoch] == expected
    assert pair.table.epochs == sorted(set(pair.table.epochs))
    assert list(pair.ledger.entries) == list(range(len(pair.ledger.entries)))
    assert pair.ledger.differing == set()
    assert {folder for _, _, folder in pair.table.commits} <= pair.table.folders


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(ACTIONS)), max_size=60),
    st.lists(st.sampled_from([Fate.WELL, *Fate]), max_size=25),
)
def test_each_epoch_goes_out_once_and_in_order_whatever_fails(
    calls: list[tuple[int, str]], faults: list[Fate]
) -> None:
    pair = Pair()
    fate = fates(faults)
    drivers = [Driver(pair, name, fate) for name in ("one-", "two-")]
    for number, action in calls:
        drivers[number].act(action)
    for _ in faults:
        fate()
    finished(pair, drivers, max(driver.epoch for driver in drivers) + 2)


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that are switched as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("seed", range(15))
def test_threads_that_meet_anywhere_do_no_harm(seed: int) -> None:
    pair, lock, dice = Pair(), threading.Lock(), Random(seed)  # noqa: S311 - a test
    broken: list[BaseException] = []

    def fate() -> Fate:
        with lock:
            return dice.choice([Fate.WELL] * 8 + list(Fate))

    drivers = [Driver(pair, name, fate) for name in ("one-", "two-")]

    def perform(driver: Driver, actions: list[str]) -> None:
        try:
            for action in actions:
                driver.act(action)
        except BaseException as error:  # noqa: BLE001 - looked at below
            broken.append(error)

    mains = [["open", "prune", "prune", "shut", "prune"] * 12, ["prune", "open", "shut"] * 20]
    threads = [
        threading.Thread(target=perform, args=(driver, actions))
        for driver, main in zip(drivers, mains, strict=True)
        # A batch of a query that was stopped goes on for a while beside those of the next query.
        for actions in (["batch"] * 60, ["batch", "repeat"] * 20, main)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == []
    for driver in drivers:
        driver.fate = no_faults
    drivers[0].live()
    finished(pair, drivers, len(pair.ledger.entries) + 2)
