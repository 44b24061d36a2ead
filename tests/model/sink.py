"""The sink of the model: what `Sender`, `DeltaSink` and `LedgerWriter` decide; `test_sink_conformance` compares them.

An epoch that the table has is compared with the input that the replica has read, or that is decided, wherever it is met.
"""

from tests.model import store as rule
from tests.model.rules import Rules
from tests.model.state import CLOSED, Commit, Replica, Table
from tests.model.store import (
    InputDiffersError,
    MissingEntryError,
    Output,
    Range,
    RefusedError,
    Store,
)


class OutputLostError(RefusedError):
    """The table lacks output that the ledger has."""


def is_empty(slice_: Range) -> bool:
    return slice_[0] == slice_[1]


def newest_of(table: Table, replica: Replica) -> int:
    newest = table.newest(replica.history)
    if newest == CLOSED:
        raise RefusedError(f"history {replica.history} has ended")
    return newest


def open_table(store: Store, table: Table, replica: Replica, rules: Rules) -> tuple[Store, Replica]:
    """Enter the epochs that only the table has."""
    newest, first = newest_of(table, replica), len(store.ledger)
    for epoch in range(first, newest + 1 if rules.adopt_compares_input else first):
        commit = table.commit_of(epoch, replica.history)
        if commit is None:
            break
        store, _ = enter(store, replica, commit.output, rules)
        if epoch + 1 >= replica.since:
            replica = replica._replace(since=min(first, replica.since))
    return store, replica._replace(opened=True)


def is_done(
    store: Store, table: Table, replica: Replica, output: Output, rules: Rules
) -> tuple[bool, Store, Replica]:
    """Whether the epoch is out; one that only the table has is entered as the table has it.

    A table that lacks output of the epochs before is refused; what comes from this one on is computed again.
    """
    epoch = len(output) - 1
    newest, entry = newest_of(table, replica), store.entry(epoch)
    past = enumerate(store.ledger[:epoch])
    if newest < max((k for k, entry in past if entry and not is_empty(entry[-1])), default=-1):
        raise OutputLostError(f"the table ends with epoch {newest}")
    if newest < epoch:
        return entry is not None and is_empty(entry[-1]), store, replica
    if not rules.adopt_compares_input:
        return True, store, replica
    commit = _compare(store, table, replica, epoch, output[-1], rules, entered=entry is not None)
    if entry is None and commit is not None:
        store, _ = enter(store, replica, commit.output, rules)
    return True, store, replica._replace(compared=max(replica.compared, epoch))


def _compare(
    store: Store,
    table: Table,
    replica: Replica,
    epoch: int,
    read: Range | None,
    rules: Rules,
    *,
    entered: bool,
) -> Commit | None:
    """The commit of an epoch that the table has; it must be of the input that was read, or is decided."""
    commit = table.commit_of(epoch, replica.history)
    if commit is None and not entered:
        raise InputDiffersError(epoch, f"neither the table nor the ledger has epoch {epoch}")
    read = read or store.decided(epoch)
    differs = commit is not None and read is not None and commit.output[-1] != read
    if differs and rules.adopt_compares_input:
        raise InputDiffersError(epoch, f"the table has epoch {epoch} with other input")
    return commit


def require_decided(store: Store, output: Output, rules: Rules) -> None:
    """What the sender asks before a commit; the decision may be lost just after that."""
    epoch = len(output) - 1
    if rules.entry_compares_input and store.decided(epoch) != output[-1]:
        raise InputDiffersError(epoch, f"epoch {epoch} is not decided, or with other input")


def commit(
    store: Store, table: Table, replica: Replica, output: Output, rules: Rules
) -> tuple[Table, Replica]:
    """One atomic commit; the table refuses an epoch that it has, and an ended history."""
    epoch = len(output) - 1
    if is_empty(output[-1]):
        return table, replica
    newest = newest_of(table, replica)
    follower = replica._replace(compared=max(replica.compared, epoch))
    if newest >= epoch and rules.table_has_transactions:
        _compare(store, table, replica, epoch, output[-1], rules, entered=False)
        return table, follower
    if newest > replica.compared:  # a replica that was paused has committed late
        _compare(store, table, replica, newest, None, rules, entered=True)
    versions = list(table.versions)
    versions[replica.history] = max(newest, epoch)
    commits = (*table.commits, Commit(epoch, replica.history, output))
    return Table(tuple(versions), tuple(sorted(commits))), follower


def enter(store: Store, replica: Replica, output: Output, rules: Rules) -> tuple[Store, bool]:
    """Enter an epoch, after those before it that the ledger has lost and this process remembers."""
    epoch, history = len(output) - 1, replica.history
    try:
        return rule.enter(store, epoch, output, history, rules)
    except MissingEntryError:
        for lost in range(max(len(store.ledger), replica.since), epoch):
            store, _ = rule.enter(store, lost, output[: lost + 1], history, rules)
        return rule.enter(store, epoch, output, history, rules)
